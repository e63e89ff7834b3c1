//! PCI as guests without firmware find it.

use vmbell_devices::pci_testdev::PciTestdevConfig;
use vmbell_hypervisor::Hypervisor;

use super::player::{Op, Play};

const ENABLE: u32 = 1 << 31;

/// A read as in kvm-unit-tests: writes all bits of the register to 0xcf8, and always reads from 0xcfc.
fn low_bits(width: u32, device: u32, register: u32) -> [Op; 2] {
    let address = ENABLE | device << 11 | register;
    [Op::Out(4, 0xcf8, address), Op::In(width, 0xcfc)]
}

/// A read in the usual order.
fn by_port(width: u32, device: u32, register: u32) -> [Op; 2] {
    let address = ENABLE | device << 11 | register & !3;
    [
        Op::Out(4, 0xcf8, address),
        Op::In(width, 0xcfc + (register & 3)),
    ]
}

/// A write of four bytes.
pub fn config(device: u32, register: u32, value: u32) -> [Op; 2] {
    let address = ENABLE | device << 11 | register;
    [Op::Out(4, 0xcf8, address), Op::Out(4, 0xcfc, value)]
}

/// Returns what the second access of each pair read.
fn answers<H: Hypervisor>(hypervisor: &H, play: &Play) -> Vec<u32> {
    let results = play.results(hypervisor);
    results.into_iter().skip(1).step_by(2).collect()
}

fn scan_by_low_bits_finds_the_device<H: Hypervisor>(hypervisor: &H) {
    let scan: Vec<Op> = (0..32)
        .flat_map(|device| [low_bits(2, device, 0), low_bits(2, device, 2)])
        .flatten()
        .collect();
    let found = answers(hypervisor, &Play::with_testdev(scan));
    let ids: Vec<(u32, u32)> = found.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    assert_eq!(ids[0], (0x8086, 0x1237), "the host bridge");
    assert_eq!(ids[1], (0x1b36, 0x0005), "the pci-testdev");
    assert!(
        ids[2..].iter().all(|id| *id == (0xffff, 0xffff)),
        "{ids:x?}"
    );
}

fn both_ways_of_addressing_read_the_same<H: Hypervisor>(hypervisor: &H) {
    let registers = [
        (1, 0),
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 0),
        (2, 2),
        (4, 0),
        (1, 0x0b),
    ];
    let read = |way: fn(u32, u32, u32) -> [Op; 2]| {
        let ops: Vec<Op> = registers
            .iter()
            .flat_map(|(width, register)| way(*width, 1, *register))
            .collect();
        answers(hypervisor, &Play::with_testdev(ops))
    };
    let values = read(low_bits);
    assert_eq!(values, read(by_port));
    assert_eq!(values[..6], [0x36, 0x1b, 0x05, 0, 0x1b36, 0x0005]);
}

fn bars_are_assigned_decoded_and_sized<H: Hypervisor>(hypervisor: &H) {
    let bar = |index: u32| 0x10 + 4 * index;
    let mut ops = vec![low_bits(2, 1, 4)];
    for index in 0..6 {
        ops.push(low_bits(4, 1, bar(index)));
        ops.push(config(1, bar(index), u32::MAX));
        ops.push(low_bits(4, 1, bar(index)));
    }
    let play = Play {
        devices: vec![PciTestdevConfig {
            membar: 4 << 30,
            pv: false,
        }],
        ..Play::new(ops.concat())
    };
    let answers = answers(hypervisor, &play);
    assert_eq!(answers[0] & 3, 3, "ports and memory are decoded");
    let bars: Vec<(u32, u32)> = answers[1..].chunks(3).map(|bar| (bar[0], bar[2])).collect();
    let expected = [
        (0xe000_0000, 0xffff_f000),
        (0xc001, 0xffff_ff01),
        (0x0000_000c, 0x0000_000c),
        (0x10, 0xffff_ffff),
        (0, 0),
        (0, 0),
    ];
    assert_eq!(bars, expected);
}

fn moved_bar_answers_at_its_new_place_only<H: Hypervisor>(hypervisor: &H) {
    let ops = [
        &[Op::Store(1, 0xe000_0000, 0), Op::Load(1, 0xe000_0001)][..],
        &config(1, 0x10, 0xe100_0000),
        &[Op::Load(1, 0xe000_0001), Op::Load(1, 0xe100_0001)],
        &config(1, 0x14, 0xd000),
        &[Op::In(1, 0xc001), Op::In(1, 0xd001)],
        // Decode off.
        &config(1, 0x04, 0),
        &[Op::Load(1, 0xe100_0001), Op::In(1, 0xd001)],
    ]
    .concat();
    let results = Play::with_testdev(ops).results(hypervisor);
    let reads: Vec<u32> = [1, 4, 5, 8, 9, 12, 13]
        .into_iter()
        .map(|index| results[index])
        .collect();
    assert_eq!(reads, [1, 0xff, 1, 0xff, 1, 0xff, 0xff]);
}

testbed::on_kvm! {
    scan_by_low_bits_finds_the_device;
    both_ways_of_addressing_read_the_same;
    bars_are_assigned_decoded_and_sized;
    moved_bar_answers_at_its_new_place_only;
}
