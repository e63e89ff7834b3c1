//! How a guest ends, and which guests cannot begin.

use std::time::Duration;

use testbed::Usermode;
use vmbell_hypervisor::Hypervisor;
use vmbell_vmm::{OnTripleFault, Pc, PcConfig, Stop};

use super::player::{Op, Play};
use testbed::chain;
use testbed::paper::Paper;

fn exit_code_comes_out_as_it_was_written<H: Hypervisor>(hypervisor: &H) {
    for code in [0, 1, 62, 0xffff_ffff] {
        let played = Play::new([Op::done(code)]).run(hypervisor);
        assert_eq!(played.end, Ok(Stop::Done(code)));
    }
}

fn word_at_the_shutdown_port_switches_off<H: Hypervisor>(hypervisor: &H) {
    let mut ops: Vec<Op> = b"Shutdown"
        .iter()
        .map(|byte| Op::Out(1, 0x8900, (*byte).into()))
        .collect();
    ops.push(Op::Sleep);
    let played = Play::new(ops).run(hypervisor);
    assert_eq!(played.end, Ok(Stop::Shutdown));
}

fn guest_that_sleeps_is_stopped_by_the_limit<H: Hypervisor>(hypervisor: &H) {
    for last in [Op::Sleep, Op::Await(0, 1)] {
        let play = Play {
            limit: Some(Duration::from_millis(200)),
            config: PcConfig {
                vcpus: 2,
                ..PcConfig::default()
            },
            ..Play::new([last])
        };
        assert_eq!(play.run(hypervisor).end, Ok(Stop::Kicked));
    }
}

fn triple_fault_is_an_error_without_a_place<H: Hypervisor>(hypervisor: &H) {
    let error = Play::new([Op::Crash]).run(hypervisor).end.unwrap_err();
    // The error has no address, because KVM does not report it.
    let expected = "guest fault: #DF: the cpu shut down (triple fault)";
    assert_eq!(error, expected);
}

fn triple_fault_is_a_reset_if_that_is_wanted<H: Hypervisor>(hypervisor: &H) {
    let play = Play {
        config: PcConfig {
            on_triple_fault: OnTripleFault::Reset,
            ..PcConfig::default()
        },
        ..Play::new([Op::Crash])
    };
    assert_eq!(play.run(hypervisor).end, Ok(Stop::Reset));
}

fn bad_size_of_memory_is_refused_with_its_bounds<H: Hypervisor>(hypervisor: &H) {
    for memory in [0, 1 << 20, (64 << 20) + 1, 4 << 30] {
        let config = PcConfig {
            memory,
            ..PcConfig::default()
        };
        let error = Pc::new(hypervisor, config, &Paper::default().output)
            .err()
            .unwrap();
        let text = chain(&error);
        assert!(
            text.contains("multiples of 4096 from 2 MiB to 3072 MiB"),
            "{text}"
        );
    }
}

testbed::on_kvm! {
    exit_code_comes_out_as_it_was_written;
    word_at_the_shutdown_port_switches_off;
    guest_that_sleeps_is_stopped_by_the_limit;
    triple_fault_is_an_error_without_a_place;
    triple_fault_is_a_reset_if_that_is_wanted;
    bad_size_of_memory_is_refused_with_its_bounds;
}

#[test]
fn backend_without_kernels_is_refused_by_name() {
    let error = Pc::new(&Usermode, PcConfig::default(), &Paper::default().output).unwrap_err();
    let text = chain(&error);
    assert!(
        text.contains("the usermode backend has no kernels"),
        "{text}"
    );
}
