//! Eventfds that are closed while they are irqfds.

use std::time::Duration;

use vmbell::irq::Gsi;
use vmbell_hypervisor::Hypervisor;

use crate::harness::{await_that, configured, count, event};
use crate::taker::{Doing, EDGE, LEVEL, PINS, take, taken, while_running, with_interrupts};

fn gsi(number: u32) -> Gsi {
    Gsi::new(number).unwrap()
}

fn what_was_signalled_before_the_close_arrives<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let vcpu = take(&vm, 0, Doing::Halts, 0, PINS);
    while_running(&vm, vec![vcpu], || {
        // Nobody takes them off; each is another eventfd, maybe with a number that was closed.
        for round in 1..=100 {
            let event = event();
            vm.register_irqfd(&event, gsi(5), None).unwrap();
            event.write(1).unwrap();
            drop(event);
            await_that("the interrupt", || taken(&vm, 0, EDGE) == round);
        }
    });
    assert_eq!(taken(&vm, 0, EDGE), 100);
}

fn a_level_whose_irqfd_is_closed_comes_to_rest<H: Hypervisor>(h: &H) {
    for _ in 0..5 {
        let vm = configured(h, with_interrupts(1));
        let vcpu = take(&vm, 0, Doing::Spins, 0, PINS);
        while_running(&vm, vec![vcpu], || {
            let (trigger, resample) = (event(), event());
            vm.register_irqfd(&trigger, gsi(4), Some(&resample))
                .unwrap();
            trigger.write(1).unwrap();
            drop(trigger);
            // Linux takes the line down with the irqfd. The I/O APIC has kept the interrupt until then; for the GIC, a
            // level that is down before the guest looks was none.
            if cfg!(target_arch = "x86_64") {
                await_that("the interrupt", || taken(&vm, 0, LEVEL) > 0);
            }
            // Linux takes the line down later than it lets go of who would have at the EOI: until then
            // it interrupts again and again. Here the first EOI takes it down.
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
    vm.register_irqfd(&trigger, gsi(4), Some(&resample))
        .unwrap();
    vm.register_irqfd(&other, gsi(4), Some(&heard)).unwrap();
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

crate::on_both! {
    what_was_signalled_before_the_close_arrives;
    a_level_whose_irqfd_is_closed_comes_to_rest;
    a_closed_resamplefd_does_not_disable_its_line;
}
