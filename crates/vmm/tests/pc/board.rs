//! Serial port, firmware configuration, ACPI and what the loader hands over.

use vmbell_hypervisor::{CpuFeatures, Hypervisor};
use vmbell_vmm::{Boot, Module, PcConfig, Stop};

use super::player::{Op, Play};

fn serial_output_comes_out<H: Hypervisor>(hypervisor: &H) {
    let text = "hello from ring 0\n";
    let ops: Vec<Op> = text
        .bytes()
        .flat_map(|byte| [Op::In(1, 0x3fd), Op::Out(1, 0x3f8, byte.into())])
        .collect();
    let played = Play::new(ops).run(hypervisor);
    assert_eq!(played.end, Ok(Stop::Done(0)));
    assert_eq!(played.output, text);
    let ready = played.results.iter().step_by(2);
    assert!(ready.clone().all(|status| status & 0x20 != 0), "{ready:x?}");
}

fn fw_cfg_says_how_many_cpus_there_are<H: Hypervisor>(hypervisor: &H) {
    let ops = [
        Op::Out(2, 0x510, 5),
        Op::In(1, 0x511),
        Op::In(1, 0x511),
        Op::Out(2, 0x510, 0),
        Op::In(1, 0x511),
        Op::Out(2, 0x510, 0x4242),
        Op::In(1, 0x511),
    ];
    let play = Play {
        config: PcConfig {
            vcpus: 3,
            ..PcConfig::default()
        },
        ..Play::new(ops)
    };
    let results = play.results(hypervisor);
    assert_eq!((results[1], results[2]), (3, 0));
    assert_eq!(results[4], u32::from(b'Q'), "the signature");
    assert_eq!(results[6], 0, "unknown items are zero");
}

fn ports_of_nobody_read_ones<H: Hypervisor>(hypervisor: &H) {
    let results = Play::new([
        Op::In(4, 0x1234),
        Op::In(2, 0x1234),
        Op::In(1, 0x1234),
        Op::Load(4, 0xd000_0000),
    ])
    .results(hypervisor);
    assert_eq!(results, [0xffff_ffff, 0xffff, 0xff, 0xffff_ffff]);
}

fn reset_control_keeps_the_kind_and_is_a_byte<H: Hypervisor>(hypervisor: &H) {
    let address = 0x8000_0600;
    let ops = [
        Op::Out(4, 0xcf8, address),
        Op::In(1, 0xcf9),
        Op::Out(1, 0xcf9, 0x02),
        Op::In(1, 0xcf9),
        Op::In(4, 0xcf8),
    ];
    let results = Play::new(ops).results(hypervisor);
    assert_eq!(results, [address, 0, 2, 2, address]);
}

/// The counter in mode 0 raises its output when it has counted down, and the refresh bit keeps changing.
fn port_61_shows_the_output_of_timer_2_and_the_refresh_bit<H: Hypervisor>(hypervisor: &H) {
    let ops = [
        Op::Out(1, 0x61, 1),
        Op::In(1, 0x61),
        Op::Out(1, 0x43, 0xb0),
        Op::Out(1, 0x42, 0x10),
        Op::Out(1, 0x42, 0x00),
        Op::AwaitSet(0x61, 1 << 5),
        Op::AwaitClear(0x61, 1 << 4),
        Op::AwaitSet(0x61, 1 << 4),
    ];
    let results = Play::new(ops).results(hypervisor);
    assert_eq!(results[1] & 0b11, 1, "the gate is on, and the speaker off");
}

fn acpi_tables_lead_to_a_timer_that_goes_on<H: Hypervisor>(hypervisor: &H) {
    let wait = vec![Op::In(1, 0x1234); 100];
    let ops = [vec![Op::In(4, 0x608)], wait, vec![Op::In(4, 0x608)]].concat();
    let played = Play::new(ops).run(hypervisor);
    assert_eq!(played.end, Ok(Stop::Done(0)));
    let (first, last) = (played.results[0], played.results[101]);
    assert!(first < 1 << 24 && last < 1 << 24);
    assert!(
        last.wrapping_sub(first) & 0xff_ffff > 0,
        "{first} to {last}"
    );

    assert_eq!(timer_port(&played.low), 0x608);
}

fn only_a_kernel_without_the_clock_of_kvm_finds_the_timer_in_the_tables<H: Hypervisor>(
    hypervisor: &H,
) {
    let mut hidden = CpuFeatures::NONE;
    assert!(hidden.insert("hypervisor"));
    for (hidden, port) in [(CpuFeatures::NONE, 0), (hidden, 0x608)] {
        let play = Play {
            is_kernel: true,
            config: PcConfig {
                hidden,
                ..PcConfig::default()
            },
            ..Play::new([Op::In(4, 0x608)])
        };
        let played = play.run(hypervisor);
        assert_eq!(played.end, Ok(Stop::Done(0)));
        assert_eq!(timer_port(&played.low), port);
        assert!(played.results[0] < 1 << 24, "the timer is there");
    }
}

/// Returns the timer's port from the FADT. Finds the FADT by signatures from the root pointer, as a guest does.
fn timer_port(low: &[u8]) -> u32 {
    let word = |at: usize| u32::from_le_bytes(low[at..at + 4].try_into().unwrap());
    let root = (0xe_0000..0x10_0000)
        .step_by(16)
        .find(|at| low[*at..*at + 8] == *b"RSD PTR ");
    let rsdt = word(root.unwrap() + 16) as usize;
    assert_eq!(low[rsdt..rsdt + 4], *b"RSDT");
    let end = rsdt + word(rsdt + 4) as usize;
    let tables = (rsdt + 36..end).step_by(4).map(|at| word(at) as usize);
    let fadt = tables.into_iter().find(|at| low[*at..*at + 4] == *b"FACP");
    word(fadt.unwrap() + 76)
}

fn kernel_has_the_interrupt_controllers<H: Hypervisor>(hypervisor: &H) {
    let results = Play::new([
        // The masks of both PICs, and the edge/level register, take what is written.
        Op::Out(1, 0x21, 0xff),
        Op::In(1, 0x21),
        Op::Out(1, 0x4d0, 0x08),
        Op::In(1, 0x4d0),
        // Versions of the local APIC and, through its index, of the I/O APIC.
        Op::Load(4, 0xfee0_0030),
        Op::Store(4, 0xfec0_0000, 1),
        Op::Load(4, 0xfec0_0010),
    ])
    .results(hypervisor);
    assert_eq!((results[1], results[3]), (0xff, 0x08));
    assert_eq!(results[4] & 0xf0, 0x10, "an integrated APIC");
    assert_eq!(results[6] >> 16, 23, "24 pins");
}

fn machine_check_has_one_bank<H: Hypervisor>(hypervisor: &H) {
    const IA32_MCG_CAP: u32 = 0x179;
    let results = Play::new([Op::Msr(IA32_MCG_CAP)]).results(hypervisor);
    assert_eq!(results[0] & 0xff, 1);
}

fn loader_hands_command_line_and_environment_over<H: Hypervisor>(hypervisor: &H) {
    let play = Play {
        boot: Boot {
            arguments: "cpuid vmcall".to_owned(),
            environment: Some(b"TEST_DEVICE=0\n".to_vec().into()),
            modules: vec![Module {
                command_line: "second with arguments".to_owned(),
                file: vec![7; 5000].into(),
            }],
            ..Boot::default()
        },
        ..Play::new([
            Op::Information,
            Op::Store(4, 0, 0x1234_5678),
            Op::Load(4, 0),
        ])
    };
    let played = play.run(hypervisor);
    assert_eq!(played.end, Ok(Stop::Done(0)));
    assert_eq!(played.results[2], 0x1234_5678, "page 0 is RAM");
    let low = &played.low;
    let word = |at: usize| u32::from_le_bytes(low[at..at + 4].try_into().unwrap()) as usize;
    let info = played.results[0] as usize;
    assert!(low[word(info + 16)..].starts_with(b"player cpuid vmcall\0"));
    assert_eq!(word(info + 20), 2);
    let module = word(info + 24);
    assert_eq!(low[word(module)..word(module + 4)], *b"TEST_DEVICE=0\n");
    let second = module + 16;
    assert_eq!(low[word(second)..word(second + 4)], [7; 5000]);
    assert!(low[word(second + 8)..].starts_with(b"second with arguments\0"));
}

fn hidden_features_are_absent_and_the_others_stay<H: Hypervisor>(hypervisor: &H) {
    const X2APIC: u32 = 1 << 21;
    const SVM: u32 = 1 << 2;
    let read = |names: &[&str]| {
        let mut hidden = CpuFeatures::NONE;
        assert!(names.iter().all(|name| hidden.insert(name)));
        let play = Play {
            config: PcConfig {
                hidden,
                ..PcConfig::default()
            },
            ..Play::new([Op::Cpuid(1), Op::Cpuid(0x8000_0001)])
        };
        let results = play.results(hypervisor);
        (results[0], results[1])
    };
    let (basic, extended) = read(&[]);
    assert_eq!(
        basic & X2APIC,
        X2APIC,
        "the backend adds it to what the host has"
    );
    assert_eq!(read(&["x2apic", "svm"]), (basic & !X2APIC, extended & !SVM));
}

testbed::on_kvm! {
    hidden_features_are_absent_and_the_others_stay;
    serial_output_comes_out;
    fw_cfg_says_how_many_cpus_there_are;
    ports_of_nobody_read_ones;
    reset_control_keeps_the_kind_and_is_a_byte;
    port_61_shows_the_output_of_timer_2_and_the_refresh_bit;
    acpi_tables_lead_to_a_timer_that_goes_on;
    only_a_kernel_without_the_clock_of_kvm_finds_the_timer_in_the_tables;
    kernel_has_the_interrupt_controllers;
    machine_check_has_one_bank;
    loader_hands_command_line_and_environment_over;
}
