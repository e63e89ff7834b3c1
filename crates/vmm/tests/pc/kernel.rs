//! What a guest with its own kernel needs from the CPU and its interrupt controller.

#![allow(unsafe_code)]

use vmbell_hypervisor::Hypervisor;
use vmbell_vmm::{PcConfig, Stop};

use super::player::Play;

vmbell_guest::guest_programs! {
    /// Enters long mode and takes interrupts.
    kernel = "kernel.S";
}

fn long_mode_interrupts_and_registers_are_there<H: Hypervisor>(hypervisor: &H) {
    for vcpus in [1, 2] {
        let play = Play {
            program: kernel,
            config: PcConfig {
                vcpus,
                ..PcConfig::default()
            },
            ..Play::default()
        };
        let played = play.run(hypervisor);
        let word = |at: usize| u64::from_le_bytes(played.low[at..at + 8].try_into().unwrap());
        assert_eq!(word(0x600), 3, "interrupts, end {:?}", played.end);
        assert_eq!(played.end, Ok(Stop::Done(0)));
        assert_eq!(word(0x610), 5, "CR8");
        assert_eq!(word(0x618), 0, "TSC_ADJUST");
        assert_eq!(word(0x620) & 0xd00, 0xd00, "the first CPU, in x2APIC mode");
        assert_eq!(word(0x628), 0, "its number");
    }
}

testbed::on_kvm! {
    long_mode_interrupts_and_registers_are_there;
}
