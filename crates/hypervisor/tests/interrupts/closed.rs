//! Irqfds whose owner has closed the eventfd, and irqfds that are dropped during an interrupt or after their guest.

use std::time::Duration;

use vmbell::irq::Gsi;
use vmbell_hypervisor::{Hypervisor, IrqTrigger};

use testbed::taker::{Doing, EDGE, LEVEL, PINS, take, taken, while_running, with_interrupts};
use testbed::{await_that, configured, count, event};

fn gsi(number: u32) -> Gsi {
    Gsi::new(number).unwrap()
}

fn an_irqfd_keeps_its_eventfd<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let vcpu = take(&vm, 0, Doing::Halts, 0, PINS);
    while_running(&vm, vec![vcpu], || {
        // Each round has a different eventfd, perhaps with a descriptor number that was closed.
        for round in 1..=100 {
            let event = event();
            let irqfd = vm.register_irqfd(&event, gsi(5), None).unwrap();
            drop(event);
            irqfd.event().write(1).unwrap();
            await_that("the interrupt", || taken(&vm, 0, EDGE) == round);
        }
    });
    assert_eq!(taken(&vm, 0, EDGE), 100);
}

fn an_irqfd_may_be_removed_and_dropped_after_its_guest<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let vcpu = take(&vm, 0, Doing::Spins, 0, PINS);
    let (removed, resample) = (event(), event());
    let mut removed = vm
        .register_irqfd(&removed, gsi(4), Some(&resample))
        .unwrap();
    let dropped = vm.register_irqfd(&event(), gsi(5), None).unwrap();
    while_running(&vm, vec![vcpu], || {
        dropped.signal();
        await_that("the interrupt", || taken(&vm, 0, EDGE) == 1);
    });
    drop(vm);
    for irqfd in [&removed, &dropped] {
        irqfd.signal();
    }
    removed.remove().unwrap();
    drop(dropped);
    // The next guest can use the eventfd.
    let vm = configured(h, with_interrupts(1));
    let _irqfd = vm
        .register_irqfd(removed.event(), gsi(4), Some(&resample))
        .unwrap();
}

fn a_level_whose_irqfd_is_dropped_comes_to_rest<H: Hypervisor>(h: &H) {
    for _ in 0..5 {
        let vm = configured(h, with_interrupts(1));
        let vcpu = take(&vm, 0, Doing::Spins, 0, PINS);
        while_running(&vm, vec![vcpu], || {
            let resample = event();
            let irqfd = vm
                .register_irqfd(&event(), gsi(4), Some(&resample))
                .unwrap();
            irqfd.signal();
            // The removal lowers the line. The I/O APIC has kept the interrupt until then; for the GIC, a level that
            // falls before the guest takes it is not an interrupt.
            drop(irqfd);
            if cfg!(target_arch = "x86_64") {
                await_that("the interrupt", || taken(&vm, 0, LEVEL) > 0);
            }
            await_that("the end of the line", || {
                let before = taken(&vm, 0, LEVEL);
                std::thread::sleep(Duration::from_millis(20));
                taken(&vm, 0, LEVEL) == before
            });
        });
    }
}

fn a_closed_resamplefd_does_not_disable_its_line<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let (trigger, resample, other, heard) = (event(), event(), event(), event());
    let _irqfd = vm
        .register_irqfd(&trigger, gsi(4), Some(&resample))
        .unwrap();
    let _other = vm.register_irqfd(&other, gsi(4), Some(&heard)).unwrap();
    drop(resample);
    let vcpu = take(&vm, 0, Doing::Spins, 0, PINS);
    while_running(&vm, vec![vcpu], || {
        for round in 1..=100 {
            trigger.write(1).unwrap();
            await_that("the interrupt", || taken(&vm, 0, LEVEL) == round);
            await_that("its end", || count(&heard) == 1);
        }
    });
    assert_eq!(taken(&vm, 0, LEVEL), 100);
}

testbed::on_both! {
    an_irqfd_keeps_its_eventfd;
    an_irqfd_may_be_removed_and_dropped_after_its_guest;
    a_level_whose_irqfd_is_dropped_comes_to_rest;
    a_closed_resamplefd_does_not_disable_its_line;
}
