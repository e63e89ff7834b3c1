//! pci-testdev with the kernel's ioeventfds: which accesses count, and which never leave the kernel.

use vmbell_devices::pci_testdev::PciTestdevConfig;
use vmbell_hypervisor::Hypervisor;
use vmbell_vmm::Stop;

use super::pci::config;
use super::player::{Op, Play, Played};

const MMIO: u32 = 0xe000_0000;
const PORT: u32 = 0xc000;
const COUNT: u32 = 12;

fn testdev(pv: bool, ops: Vec<Op>) -> Play {
    Play {
        devices: vec![PciTestdevConfig { membar: 0, pv }],
        ..Play::new(ops)
    }
}

/// Selects a test of BAR0, stores `times`, and reads the count.
fn stores(test: u32, width: u32, offset: u32, value: u32, times: usize) -> Vec<Op> {
    let mut ops = vec![Op::Store(1, MMIO, test)];
    ops.extend(vec![Op::Store(width, MMIO + offset, value); times]);
    ops.push(Op::Load(4, MMIO + COUNT));
    ops
}

/// Like `stores`, for the ports of BAR1.
fn outs(test: u32, width: u32, offset: u32, value: u32, times: usize) -> Vec<Op> {
    let mut ops = vec![Op::Out(1, PORT, test)];
    ops.extend(vec![Op::Out(width, PORT + offset, value); times]);
    ops.push(Op::In(4, PORT + COUNT));
    ops
}

fn count<H: Hypervisor>(hypervisor: &H, pv: bool, ops: Vec<Op>) -> u32 {
    *testdev(pv, ops).results(hypervisor).last().unwrap()
}

fn writes_without_an_eventfd_are_counted<H: Hypervisor>(hypervisor: &H) {
    assert_eq!(count(hypervisor, false, stores(0, 1, 2048, 0xfa, 16)), 16);
    assert_eq!(count(hypervisor, false, outs(0, 1, 131, 0xfa, 16)), 16);
    // The wrong value, and the addresses next to it.
    assert_eq!(count(hypervisor, false, stores(0, 1, 2048, 0xce, 16)), 0);
    assert_eq!(count(hypervisor, false, stores(0, 1, 2049, 0xfa, 16)), 0);
    assert_eq!(count(hypervisor, false, outs(0, 1, 130, 0xfa, 16)), 0);
}

fn writes_to_an_eventfd_are_not_counted<H: Hypervisor>(hypervisor: &H) {
    for (test, value) in [(1, 0xce), (2, 0xfa)] {
        let mmio = stores(test, 1, 2048 + test, value, 16);
        assert_eq!(count(hypervisor, false, mmio), 0, "mmio {test}");
        let port = outs(test, 1, 131 + test, value, 16);
        assert_eq!(count(hypervisor, false, port), 0, "portio {test}");
    }
    for (test, value) in [(1, 0xce), (2, 0xfa), (3, 0xce)] {
        let mmio = stores(test, 1, 2048 + test, value, 16);
        assert_eq!(count(hypervisor, true, mmio), 0, "mmio {test}");
        let port = outs(test, 1, 132 + test, value, 16);
        assert_eq!(count(hypervisor, true, port), 0, "portio {test}");
    }
}

fn eventfd_takes_writes_with_no_exit_to_the_vmm<H: Hypervisor>(hypervisor: &H) {
    let exits = |ops: Vec<Op>| {
        let Played { end, exits, .. } = testdev(true, ops).run(hypervisor);
        assert_eq!(end, Ok(Stop::Done(0)));
        exits.heavy
    };
    for test in 1..4 {
        let value = if test == 2 { 0xfa } else { 0xce };
        let mmio = |times| exits(stores(test, 1, 2048 + test, value, times));
        assert_eq!(mmio(200), mmio(1), "mmio {test}");
        let port = |times| exits(outs(test, 1, 132 + test, value, times));
        assert_eq!(port(200), port(1), "portio {test}");
    }
    let without = |times| exits(stores(0, 1, 2048, 0xfa, times));
    assert_eq!(without(200) - without(1), 199);
}

fn width_matters_where_the_doorbell_has_one<H: Hypervisor>(hypervisor: &H) {
    // In memory, the wildcard of mainline takes any length.
    for width in [1, 2, 4] {
        assert_eq!(count(hypervisor, false, stores(1, width, 2049, 0xce, 8)), 0);
    }
    // With a fourth test, the wildcard matches one-byte writes, and the fourth test matches writes of any length.
    assert_eq!(count(hypervisor, true, stores(1, 4, 2049, 0xce, 8)), 8);
    assert_eq!(count(hypervisor, true, stores(3, 4, 2051, 0xce, 8)), 0);
    assert_eq!(count(hypervisor, true, outs(1, 2, 133, 0xce, 8)), 8);
    assert_eq!(count(hypervisor, true, outs(3, 4, 135, 0xce, 8)), 0);
    // Datamatch: the device sees the byte of a wider write, and no other value.
    assert_eq!(count(hypervisor, false, stores(2, 2, 2050, 0x00fa, 8)), 8);
    assert_eq!(count(hypervisor, false, stores(2, 1, 2050, 0xfb, 8)), 0);
}

fn selecting_again_and_moving_keep_one_doorbell<H: Hypervisor>(hypervisor: &H) {
    let moved = 0xe100_0000;
    let mut ops = vec![Op::Store(1, MMIO, 1); 4];
    ops.extend(config(1, 0x10, moved));
    ops.extend([Op::Store(1, moved + 2049, 0xce); 16]);
    ops.push(Op::Load(4, moved + COUNT));
    // the doorbell of a test that is no longer selected is gone: these stores reach the device, which ignores them.
    ops.push(Op::Store(1, moved, 0));
    ops.extend([Op::Store(1, moved + 2049, 0xce); 16]);
    ops.extend([Op::Store(1, moved + 2048, 0xfa); 3]);
    ops.push(Op::Load(4, moved + COUNT));
    let results = testdev(false, ops).results(hypervisor);
    assert_eq!(results[4 + 2 + 16], 0);
    assert_eq!(*results.last().unwrap(), 3);
}

fn two_devices_do_not_disturb_each_other<H: Hypervisor>(hypervisor: &H) {
    let second = MMIO + 0x1000;
    let play = Play {
        devices: vec![PciTestdevConfig::default(); 2],
        ..Play::new([
            Op::Store(1, MMIO, 1),
            Op::Store(1, second, 0),
            Op::Store(1, MMIO + 2049, 0xce),
            Op::Store(1, second + 2048, 0xfa),
            Op::Load(4, MMIO + COUNT),
            Op::Load(4, second + COUNT),
        ])
    };
    assert_eq!(play.results(hypervisor)[4..], [0, 1]);
}

testbed::on_kvm! {
    writes_without_an_eventfd_are_counted;
    writes_to_an_eventfd_are_not_counted;
    eventfd_takes_writes_with_no_exit_to_the_vmm;
    width_matters_where_the_doorbell_has_one;
    selecting_again_and_moving_keep_one_doorbell;
    two_devices_do_not_disturb_each_other;
}
