//! A full blocking resamplefd: it holds the vCPU that ends the interrupt, as a full doorbell does, but no other vCPU.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use vmbell::irq::Gsi;
use vmbell_hypervisor::{Error, Hypervisor, VmExit};
use vmm_sys_util::eventfd::EventFd;

use testbed::process::{sleeps_in_write, with_sandbox};
use testbed::taker::{
    Doing, EDGE, LEVEL, PINS, msi, rounds, take, taken, while_running_and_seeing, with_interrupts,
};
use testbed::{await_that, event};

fn a_full_resamplefd_holds_only_the_vcpu_that_ends_the_interrupt<H: Hypervisor>(h: &H) {
    const FULL: u64 = u64::MAX - 1;
    let (vm, sandbox) = with_sandbox(h, &with_interrupts(2));
    let (irqfd, held, kicked) = (event(), EventFd::new(0).unwrap(), AtomicU64::new(0));
    let (level, edge) = (Gsi::new(4).unwrap(), Gsi::new(5).unwrap());
    held.write(FULL).unwrap();
    let mut removed = vm.register_irqfd(&irqfd, level, Some(&held)).unwrap();
    let vcpus = [(0, Doing::Spins, PINS), (1, Doing::Halts, 0)];
    let vcpus = vcpus.map(|(index, doing, flags)| take(&vm, index, doing, 0, flags));
    let kick = vcpus[0].kick_handle();
    let see = |exit: &VmExit| {
        assert_eq!(*exit, VmExit::Kicked);
        kicked.fetch_add(1, Relaxed);
    };
    let hold = |interrupts| {
        irqfd.write(1).unwrap();
        await_that("the interrupt", || taken(&vm, 0, LEVEL) == interrupts);
        await_that("the vcpu to be held", || sleeps_in_write(sandbox));
    };
    while_running_and_seeing(&vm, vcpus.into(), &see, || {
        for round in 1..=5 {
            hold(round);
            vm.set_line(edge, true).unwrap();
            vm.set_line(edge, false).unwrap();
            assert!(vm.signal_msi(msi(0, 0x41)).unwrap());
            assert!(vm.signal_msi(msi(1, 0x42)).unwrap());
            await_that("the other vcpu's", || taken(&vm, 1, 0x42) == round);
            assert_eq!(taken(&vm, 0, 0x41), round - 1, "it is held");
            kick.kick();
            await_that("the kick", || kicked.load(Relaxed) == round);
            await_that("what came meanwhile", || {
                (taken(&vm, 0, 0x41), taken(&vm, 0, EDGE)) == (round, round)
            });
        }
        hold(6);
        let result = removed.remove();
        assert!(
            matches!(result, Ok(()) | Err(Error::Unremoved { .. })),
            "{result:?}"
        );
        assert_eq!(held.read().unwrap(), FULL, "it was full all the time");
        let begun = rounds(&vm, 0);
        await_that("the vcpu continues", || rounds(&vm, 0) > begun);
        removed.remove().unwrap();
    });
    assert_eq!(taken(&vm, 0, LEVEL), 6);
}

testbed::on_usermode! {
    a_full_resamplefd_holds_only_the_vcpu_that_ends_the_interrupt;
}
