//! The micro model of the PC: the ways to end it, and what it does not have.

use vmbell_devices::virtio::{Entropy, VirtioConfig, VirtioDevice};
use vmbell_hypervisor::{CpuFeatures, Hypervisor};
use vmbell_vmm::{OnTripleFault, Pc, PcConfig, PcModel, Stop};

use super::player::{Op, Play, Played};
use testbed::chain;
use testbed::paper::Paper;

const CONFIG: PcConfig = PcConfig {
    model: PcModel::Micro,
    memory: 128 << 20,
    vcpus: 1,
    hidden: CpuFeatures::NONE,
    pv_eoi: true,
    shared_memory: false,
    on_triple_fault: OnTripleFault::Exit,
};

fn play(ops: impl Into<Vec<Op>>) -> Play {
    Play {
        config: CONFIG,
        ..Play::new(ops)
    }
}

/// S5 (kind 0) with the bit that starts the sleep.
fn sleep_control_switches_off<H: Hypervisor>(hypervisor: &H) {
    let played = play([Op::Out(1, 0x600, 0x20), Op::Sleep]).run(hypervisor);
    assert_eq!(played.end, Ok(Stop::Shutdown));
}

fn port_a_resets<H: Hypervisor>(hypervisor: &H) {
    let played = play([Op::Out(1, 0x92, 1), Op::Sleep]).run(hypervisor);
    assert_eq!(played.end, Ok(Stop::Reset));
}

/// The ports of the clock, keyboard controller, firmware configuration, PICs, timer and PCI configuration read like
/// ports without a device.
fn legacy_ports_have_no_device<H: Hypervisor>(hypervisor: &H) {
    let ports = [0x71, 0x64, 0x511, 0x21, 0x40, 0xcf8, 0x604];
    let results = play(ports.map(|port| Op::In(1, port))).results(hypervisor);
    assert_eq!(results, [0xff; 7]);
}

/// Where the registers of slot 1 are.
const SLOT_1: u32 = 0xfe00_8000;

fn rng(ops: impl Into<Vec<Op>>) -> Play {
    Play {
        rng: Some(VirtioConfig::default()),
        ..play(ops)
    }
}

fn exits<H: Hypervisor>(hypervisor: &H, ops: Vec<Op>) -> u64 {
    let Played { end, exits, .. } = rng(ops).run(hypervisor);
    assert_eq!(end, Ok(Stop::Done(0)));
    exits.heavy
}

fn configuration_is_read_without_an_exit<H: Hypervisor>(hypervisor: &H) {
    let exits = |times| exits(hypervisor, vec![Op::Load(4, SLOT_1); times]);
    assert_eq!(exits(200), exits(1));
    let results = rng([Op::Load(4, SLOT_1), Op::Load(2, SLOT_1 + 0x1000)]).results(hypervisor);
    assert_eq!(results, [0x1044_1af4, 0xffff], "no second function");
}

fn configuration_reads_as_it_was_written<H: Hypervisor>(hypervisor: &H) {
    let (command, bar, line) = (SLOT_1 + 4, SLOT_1 + 0x10, SLOT_1 + 0x3c);
    let results = rng([
        Op::Load(2, command),
        Op::Store(2, command, 0),
        Op::Load(2, command),
        Op::Load(4, bar),
        Op::Store(4, bar, u32::MAX),
        Op::Load(4, bar),
        Op::Store(1, line, 0x2a),
        Op::Load(4, line),
    ])
    .results(hypervisor);
    let read = [0, 2, 3, 5, 7].map(|op| results[op]);
    assert_eq!(read[..2], [2, 0], "memory decode, and then nothing");
    assert_eq!(read[2] & 0xf, read[3] & 0xf, "the kind of BAR");
    let size = (read[3] & !0xf).wrapping_neg();
    assert!(size.is_power_of_two() && size >= 0x1000, "{size:#x}");
    assert_eq!(read[4], 0x2a);
}

/// `pci_cfg_data` reads a register of the BAR (virtio 1.3, 4.1.4.9), so configuration space can no longer be plain
/// memory.
fn window_to_the_bar_works_and_makes_each_read_an_exit<H: Hypervisor>(hypervisor: &H) {
    let loads: Vec<_> = (0..64).map(|at| Op::Load(4, SLOT_1 + 4 * at)).collect();
    let bytes: Vec<_> = rng(loads)
        .results(hypervisor)
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    let next = |at: &u8| Some(bytes[usize::from(*at) + 1]).filter(|next| *next != 0);
    let mut list = std::iter::successors(Some(bytes[0x34]), next);
    // The vendor-specific capability of type VIRTIO_PCI_CAP_PCI_CFG.
    let window = list.find(|at| {
        let at = usize::from(*at);
        (bytes[at], bytes[at + 3]) == (9, 5)
    });
    let at = SLOT_1 + u32::from(window.unwrap());
    let num_queues = 0x12;
    let open = [
        Op::Store(1, at + 4, 0),
        Op::Store(4, at + 8, num_queues),
        Op::Store(4, at + 12, 2),
    ];
    let results = rng([&open[..], &[Op::Load(2, at + 16)]].concat()).results(hypervisor);
    assert_eq!(results[3], 1);
    let exits = |times| {
        exits(
            hypervisor,
            [&open[..], &vec![Op::Load(4, SLOT_1); times]].concat(),
        )
    };
    assert_eq!(exits(200) - exits(1), 199);
}

fn devices_that_need_lines_are_refused<H: Hypervisor>(hypervisor: &H) {
    let pc = Pc::new(hypervisor, CONFIG, &Paper::default().output).unwrap();
    let virtio = VirtioDevice::new(Entropy, 1, VirtioConfig::default());
    let virtio = pc.add_virtio_mmio(virtio);
    for (device, refused) in [("virtio-rng", virtio), ("pc-testdev", pc.add_pc_testdev())] {
        let text = chain(&refused.unwrap_err());
        let expected =
            format!("a {device} raises interrupt lines, which the micro model does not have");
        assert!(text.contains(&expected), "{text}");
    }
}

testbed::on_kvm! {
    sleep_control_switches_off;
    port_a_resets;
    legacy_ports_have_no_device;
    configuration_is_read_without_an_exit;
    configuration_reads_as_it_was_written;
    window_to_the_bar_works_and_makes_each_read_an_exit;
    devices_that_need_lines_are_refused;
}
