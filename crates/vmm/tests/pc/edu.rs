//! QEMU's edu, a device of the host that the guest finds on its PCI bus and uses for DMA (QEMU `docs/specs/edu.rst`;
//! docs/lab.md, "Devices to assign").

use vmbell_hypervisor::Hypervisor;

use super::pci::config;
use super::player::{Op, Play};

const EDU: &str = "0000:00:03.0";
/// Where the board puts the first BAR.
const BAR: u32 = 0xe000_0000;
/// The DMA address of the device's own memory.
const OWN: u32 = 0x4_0000;
/// The guest's addresses of the source and of the copy.
const SOURCE: u32 = 0x40_0000;
const COPY: u32 = 0x50_0000;

/// Starts a transfer of eight bytes, and waits until it is done.
fn transfer(from: u32, to: u32, command: u32) -> [Op; 5] {
    [
        Op::Store(4, BAR + 0x80, from),
        Op::Store(4, BAR + 0x88, to),
        Op::Store(4, BAR + 0x90, 8),
        Op::Store(4, BAR + 0x98, command),
        Op::Await(BAR + 0x98, command & !1),
    ]
}

fn guest_lets_its_device_copy_its_memory<H: Hypervisor>(hypervisor: &H) {
    let mut ops = vec![
        Op::Store(4, SOURCE, 0x1234_5678),
        Op::Store(4, SOURCE + 4, 0x9abc_def0),
    ];
    // Memory decoding and bus mastering.
    ops.extend(config(1, 4, 6));
    ops.push(Op::Load(4, BAR));
    ops.extend(transfer(SOURCE, OWN, 1));
    ops.extend(transfer(OWN, COPY, 3));
    ops.extend([Op::Load(4, COPY), Op::Load(4, COPY + 4)]);
    let play = Play {
        assigned: Some(EDU),
        ..Play::new(ops)
    };
    let results = play.results(hypervisor);
    assert_eq!(results[4], 0x0100_00ed, "its identity");
    assert_eq!(results[results.len() - 2..], [0x1234_5678, 0x9abc_def0]);
}

testbed::on_kvm! {
    guest_lets_its_device_copy_its_memory;
}
