//! Eventfds that raise GSIs.

use std::sync::Arc;
use std::time::Duration;

use vmbell::irq::{Gsi, Route, Target};
use vmbell_hypervisor::{Hypervisor, IrqTrigger, Irqchip, VmConfig};
use vmm_sys_util::eventfd::EventFd;

use testbed::taker::{
    Doing, EDGE, PINS, has_messages, msi, take, taken, while_running, with_interrupts,
};
use testbed::{await_that, chain, configured, count, event};

fn gsi(number: u32) -> Gsi {
    Gsi::new(number).unwrap()
}

fn an_edge_arrives_once_for_each_signal<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let event = event();
    let _irqfd = vm.register_irqfd(&event, gsi(5), None).unwrap();
    let vcpu = take(&vm, 0, Doing::Halts, 0, PINS);
    while_running(&vm, vec![vcpu], || {
        for round in 1..=300 {
            event.write(1).unwrap();
            await_that("the interrupt", || taken(&vm, 0, EDGE) == round);
            assert_eq!(count(&event), 0, "the count is consumed");
        }
        // Several signals at once are one interrupt.
        event.write(7).unwrap();
        await_that("the interrupt", || taken(&vm, 0, EDGE) == 301);
        std::thread::sleep(Duration::from_millis(20));
    });
    assert_eq!(taken(&vm, 0, EDGE), 301);
}

fn a_route_may_be_a_message<H: Hypervisor>(h: &H) {
    if !has_messages(h) {
        return;
    }
    let config = VmConfig {
        // Only x86-64 has a split irqchip.
        irqchip: if cfg!(target_arch = "x86_64") {
            Irqchip::Split
        } else {
            Irqchip::Full
        },
        ..with_interrupts(1)
    };
    let vm = configured(h, config);
    let route = Route {
        gsi: gsi(100),
        target: Target::Msi(msi(0, 0x99)),
    };
    vm.set_routing(&[route]).unwrap();
    let (event, nowhere) = (event(), event());
    let _irqfd = vm.register_irqfd(&event, gsi(100), None).unwrap();
    let _nowhere = vm.register_irqfd(&nowhere, gsi(101), None).unwrap();
    let vcpu = take(&vm, 0, Doing::Spins, 0, 0);
    while_running(&vm, vec![vcpu], || {
        nowhere.write(1).unwrap();
        for round in 1..=300 {
            event.write(1).unwrap();
            await_that("the interrupt", || taken(&vm, 0, 0x99) == round);
        }
        await_that("a signal that leads nowhere is consumed", || {
            count(&nowhere) == 0
        });
    });
    if cfg!(target_arch = "x86_64") {
        let error = vm.register_irqfd(&testbed::event(), gsi(3), Some(&event));
        assert!(chain(&error.unwrap_err()).contains("resampl"));
    }
}

fn what_was_counted_before_is_raised_at_once<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let vcpu = take(&vm, 0, Doing::Spins, 0, PINS);
    while_running(&vm, vec![vcpu], || {
        let event = event();
        event.write(3).unwrap();
        let _irqfd = vm.register_irqfd(&event, gsi(5), None).unwrap();
        await_that("the interrupt", || taken(&vm, 0, EDGE) == 1);
    });
}

fn a_removed_irqfd_raises_nothing<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let event = event();
    let vcpu = take(&vm, 0, Doing::Spins, 0, PINS);
    while_running(&vm, vec![vcpu], || {
        for round in 1..=50 {
            let mut irqfd = vm.register_irqfd(&event, gsi(5), None).unwrap();
            event.write(1).unwrap();
            await_that("the interrupt", || taken(&vm, 0, EDGE) == round);
            let copy = Arc::new(event.try_clone().unwrap());
            let busy = vm.register_irqfd(&copy, gsi(6), None);
            assert!(chain(&busy.unwrap_err()).contains("already"));
            if round % 2 == 0 {
                drop(irqfd);
            } else {
                irqfd.remove().unwrap();
                // Does nothing.
                irqfd.signal();
                count(&event);
            }
            event.write(1).unwrap();
            assert_eq!(count(&event), 1, "no irqfd takes the count any more");
        }
        std::thread::sleep(Duration::from_millis(20));
    });
    assert_eq!(taken(&vm, 0, EDGE), 50);
}

fn an_eventfd_that_blocks_does_not_hold_anybody<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let event = Arc::new(EventFd::new(0).unwrap());
    let _irqfd = vm.register_irqfd(&event, gsi(5), None).unwrap();
    let vcpu = take(&vm, 0, Doing::Halts, 0, PINS);
    while_running(&vm, vec![vcpu], || {
        for round in 1..=100 {
            event.write(1).unwrap();
            await_that("the interrupt", || taken(&vm, 0, EDGE) == round);
        }
    });
    // The end of the guest is not delayed either.
    drop(vm);
}

testbed::on_both! {
    an_edge_arrives_once_for_each_signal;
    a_route_may_be_a_message;
    what_was_counted_before_is_raised_at_once;
    a_removed_irqfd_raises_nothing;
    an_eventfd_that_blocks_does_not_hold_anybody;
}
