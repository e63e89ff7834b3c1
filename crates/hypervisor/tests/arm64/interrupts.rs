//! Interrupts to the guest, on the host's version of the GIC: irqfds, lines, routes and messages.

use std::cell::Cell;

use vmbell::irq::{Gsi, IrqError, Msi, Route, Target};
use vmbell_guest::offset;
use vmbell_hypervisor::{Error, Hypervisor, VmExit};

use crate::arm64::taker::{INTID, LPI, MESSAGE, PIN, set, take, taken, with_interrupts};
use testbed::taker::has_messages;
use testbed::{HOLE, await_that, chain, count, event, plain};

const ROUNDS: u64 = 50;
/// GITS_TRANSLATER.
const DOORBELL: u64 = vmbell_hypervisor::aarch64::ITS + 0x1_0040;

fn gsi() -> Gsi {
    Gsi::new(PIN.into()).unwrap()
}

fn edges_of_an_irqfd_arrive_one_by_one<H: Hypervisor>(h: &H) {
    let (vm, event) = (with_interrupts(h), event());
    let mut irqfd = vm.register_irqfd(&event, gsi(), None).unwrap();
    let meanwhile = || {
        for done in 1..=ROUNDS {
            event.write(1).unwrap();
            await_that("the interrupt", || taken(&vm) == done);
        }
    };
    assert_eq!(take(&vm, (INTID, false), 0, ROUNDS, meanwhile, |_| {}), []);
    irqfd.remove().unwrap();
    event.write(1).unwrap();
    assert_eq!(count(&event), 1, "no irqfd takes it any more");
}

fn level_of_an_irqfd_is_taken_down_and_acknowledged_at_its_end<H: Hypervisor>(h: &H) {
    let (vm, event, resample) = (with_interrupts(h), event(), testbed::event());
    let _irqfd = vm.register_irqfd(&event, gsi(), Some(&resample)).unwrap();
    let meanwhile = || {
        for done in 1..=ROUNDS {
            event.write(1).unwrap();
            let acknowledged = Cell::new(0);
            await_that("the acknowledgement", || {
                acknowledged.set(acknowledged.get() + count(&resample));
                acknowledged.get() > 0
            });
            assert_eq!((acknowledged.get(), taken(&vm)), (1, done));
        }
    };
    assert_eq!(take(&vm, (INTID, true), 0, ROUNDS, meanwhile, |_| {}), []);
}

fn level_comes_again_until_the_line_is_low<H: Hypervisor>(h: &H) {
    let vm = with_interrupts(h);
    let mut left = 3;
    let lower = |exit: &VmExit| {
        let told = VmExit::MmioWrite {
            address: HOLE,
            len: 4,
            data: INTID.into(),
        };
        assert_eq!(*exit, told);
        left -= 1;
        if left == 0 {
            vm.set_line(gsi(), false).unwrap();
            set(&vm, offset::TARGET, 3);
        }
    };
    let raise = || vm.set_line(gsi(), true).unwrap();
    let exits = take(&vm, (INTID, true), HOLE, u64::MAX, raise, lower);
    assert_eq!((exits.len(), taken(&vm)), (3, 3));
}

fn gsi_follows_its_route<H: Hypervisor>(h: &H) {
    let vm = with_interrupts(h);
    let other = Gsi::new(1000).unwrap();
    let route = Route {
        gsi: other,
        target: Target::Pin(PIN),
    };
    vm.set_routing(&[route]).unwrap();
    let event = event();
    let _irqfd = vm.register_irqfd(&event, other, None).unwrap();
    let meanwhile = || {
        // The line no longer has a route.
        vm.set_line(gsi(), true).unwrap();
        vm.set_line(gsi(), false).unwrap();
        event.write(1).unwrap();
        await_that("the interrupt", || taken(&vm) == 1);
        vm.set_line(other, true).unwrap();
        vm.set_line(other, false).unwrap();
    };
    assert_eq!(take(&vm, (INTID, false), 0, 2, meanwhile, |_| {}), []);
    assert_eq!(taken(&vm), 2);
}

fn message() -> Msi {
    Msi {
        address: DOORBELL,
        data: MESSAGE.event,
        device: Some(MESSAGE.device),
    }
}

fn messages_become_lpis_where_there_is_an_its<H: Hypervisor>(h: &H) {
    if !has_messages(h) {
        return;
    }
    let vm = with_interrupts(h);
    assert!(
        !vm.signal_msi(message()).unwrap(),
        "the its maps nothing yet"
    );
    let (event, routed) = (event(), Gsi::new(500).unwrap());
    let route = Route {
        gsi: routed,
        target: Target::Msi(message()),
    };
    vm.set_routing(&[route]).unwrap();
    let _irqfd = vm.register_irqfd(&event, routed, None).unwrap();
    let meanwhile = || {
        for done in 0..ROUNDS {
            assert!(vm.signal_msi(message()).unwrap());
            await_that("the interrupt", || taken(&vm) == 3 * done + 1);
            event.write(1).unwrap();
            await_that("the interrupt", || taken(&vm) == 3 * done + 2);
            vm.set_line(routed, true).unwrap();
            await_that("the interrupt", || taken(&vm) == 3 * done + 3);
        }
    };
    assert_eq!(
        take(&vm, (LPI, false), 0, 3 * ROUNDS, meanwhile, |_| {}),
        []
    );
}

fn message_without_its_device_is_refused<H: Hypervisor>(h: &H) {
    let vm = with_interrupts(h);
    let nameless = Msi {
        device: None,
        ..message()
    };
    let error = vm.signal_msi(nameless).unwrap_err();
    let is_told = matches!(error, Error::Irq(IrqError::NoDevice));
    assert!(is_told, "{}", chain(&error));
}

fn irqfd_needs_interrupt_controllers<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    assert_eq!(vm.gic(), None);
    let error = vm.register_irqfd(&event(), gsi(), None).unwrap_err();
    let is_told = matches!(error, Error::Irq(IrqError::NoIrqchip));
    assert!(is_told, "{}", chain(&error));
}

testbed::on_kvm! {
    edges_of_an_irqfd_arrive_one_by_one;
    level_of_an_irqfd_is_taken_down_and_acknowledged_at_its_end;
    level_comes_again_until_the_line_is_low;
    gsi_follows_its_route;
    messages_become_lpis_where_there_is_an_its;
    message_without_its_device_is_refused;
    irqfd_needs_interrupt_controllers;
}
