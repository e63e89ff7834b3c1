//! Forwarded lines: the guest ends each interrupt by its PV EOI bit, and the device polls for the end.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::process::Signal;
use vmbell::irq::{ForwardedLine, Gsi, IrqError, Msi, Route, Target};
use vmbell::sync::Mutex;
use vmbell_hypervisor::{Capability, Error, Hypervisor, Vm, VmEntry, VmExit};

use testbed::logged::{EOI, Logged, MSR_PV_EOI, PV_EOI as BY_BIT, WORD, whole};
use testbed::process::{signal, with_sandbox};
use testbed::script::Op;
use testbed::taker::{
    Doing, LEVEL, PINS, PV_EOI, SAID, SAY_SO, WORK, add_work, rounds as begun, spared, spurious,
    take, taken, while_running, while_running_and_seeing, with_interrupts,
};
use testbed::{await_that, chain, configured, count, event, plain, rounds, step};

const MANY: u64 = 1200;

fn gsi() -> Gsi {
    Gsi::new(4).unwrap()
}

/// Raises a line `count` times, each time until the guest has ended the interrupt.
fn raise(line: &dyn ForwardedLine, count: u64) {
    for _ in 0..count {
        line.raise();
        await_that("the end of the interrupt", || line.has_ended());
    }
}

fn none_of_many_is_lost_and_nearly_all_end_by_the_bit<H: Hypervisor>(h: &H) {
    let many = rounds(MANY);
    for doing in [Doing::Spins, Doing::Halts, Doing::Writes, Doing::Masks] {
        let vm = configured(h, with_interrupts(1));
        let line = vm.forward_line(gsi()).unwrap();
        let vcpu = take(&vm, 0, doing, 0x77, PINS | PV_EOI);
        while_running(&vm, vec![vcpu], || raise(&*line, many));
        assert_eq!(taken(&vm, 0, LEVEL), many, "{doing:?}");
        // An exit for another reason may come while the handler is preempted; that interrupt then needs a real EOI.
        assert!(
            spared(&vm, 0) >= many - many / 10,
            "{doing:?}: {}",
            spared(&vm, 0)
        );
    }
}

fn a_guest_without_the_bit_ends_them_by_the_register<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let line = vm.forward_line(gsi()).unwrap();
    let vcpu = take(&vm, 0, Doing::Spins, 0, PINS);
    while_running(&vm, vec![vcpu], || raise(&*line, 100));
    assert_eq!((taken(&vm, 0, LEVEL), spared(&vm, 0)), (100, 0));
}

/// Lets a guest take an interrupt, and calls `meanwhile` once while its handler runs. `meanwhile` may drop the line.
fn in_mid_interrupt(
    vm: &Arc<dyn Vm>,
    line: Box<dyn ForwardedLine>,
    meanwhile: impl Fn(Box<dyn ForwardedLine>) -> Option<Box<dyn ForwardedLine>> + Sync,
    then: impl FnOnce(Option<Box<dyn ForwardedLine>>),
) {
    let vcpu = take(vm, 0, Doing::Spins, 0, PINS | PV_EOI | WORK | SAY_SO);
    add_work(vm, 0);
    let (line, seen) = (Mutex::new(Some(line)), AtomicU64::new(0));
    let lock = || line.lock();
    let see = |exit: &VmExit| {
        if matches!(exit, VmExit::PioOut { port: SAID, .. }) {
            let mut line = lock();
            let found = line.take().expect("the first interrupt alone has work");
            assert!(!found.has_ended());
            *line = meanwhile(found);
            seen.fetch_add(1, Relaxed);
        }
    };
    while_running_and_seeing(vm, vec![vcpu], &see, || {
        lock().as_ref().unwrap().raise();
        await_that("the handler", || seen.load(Relaxed) == 1);
        let left = lock().take();
        then(left);
    });
}

fn edges_that_come_while_one_is_active_are_one_more<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let line = vm.forward_line(gsi()).unwrap();
    let again = |line: Box<dyn ForwardedLine>| {
        (0..3).for_each(|_| line.raise());
        Some(line)
    };
    in_mid_interrupt(&vm, line, again, |line| {
        let line = line.unwrap();
        await_that("the second", || line.has_ended());
        assert_eq!(taken(&vm, 0, LEVEL), 2);
        raise(&*line, 10);
    });
    assert_eq!((taken(&vm, 0, LEVEL), spurious(&vm, 0)), (12, 11));
}

fn a_level_that_stays_up_is_taken_again_until_it_is_down<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let line = vm.forward_line(gsi()).unwrap();
    let vcpu = take(&vm, 0, Doing::Spins, 0, PINS | PV_EOI);
    while_running(&vm, vec![vcpu], || {
        vm.set_line(gsi(), true).unwrap();
        await_that("several of one level", || taken(&vm, 0, LEVEL) >= 10);
        assert!(!line.has_ended());
        vm.set_line(gsi(), false).unwrap();
        await_that("the last", || line.has_ended());
    });
}

fn after_an_undo_in_mid_interrupt_the_line_resamples_and_can_be_forwarded_again<H: Hypervisor>(
    h: &H,
) {
    let vm = configured(h, with_interrupts(1));
    let line = vm.forward_line(gsi()).unwrap();
    let undo = |line| {
        drop(line);
        None
    };
    in_mid_interrupt(&vm, line, undo, |_| {
        let round = begun(&vm, 0);
        await_that("the handler's end", || begun(&vm, 0) > round);
        let (irqfd, told) = (event(), event());
        // Refused while the line is forwarded.
        let registered = vm.register_irqfd(&irqfd, gsi(), Some(&told)).unwrap();
        for _ in 0..100 {
            irqfd.write(1).unwrap();
            await_that("the resamplefd", || count(&told) > 0);
        }
        assert_eq!((taken(&vm, 0, LEVEL), spared(&vm, 0)), (101, 0));
        drop(registered);
        let line = vm.forward_line(gsi()).unwrap();
        raise(&*line, 100);
    });
    assert_eq!(taken(&vm, 0, LEVEL), 201);
    assert!(spared(&vm, 0) >= 90, "{}", spared(&vm, 0));
}

fn an_edge_that_was_latched_before_the_undo_is_still_taken<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let line = vm.forward_line(gsi()).unwrap();
    let undo = |line: Box<dyn ForwardedLine>| {
        line.raise();
        None
    };
    in_mid_interrupt(&vm, line, undo, |_| {
        await_that("the second", || taken(&vm, 0, LEVEL) == 2);
        let round = begun(&vm, 0);
        await_that("the handler's end", || begun(&vm, 0) > round);
    });
    assert_eq!(taken(&vm, 0, LEVEL), 2);
}

fn nothing_is_under_way_once_the_guest_was_killed<H: Hypervisor>(h: &H) {
    let (vm, sandbox) = with_sandbox(h, &with_interrupts(1));
    let line = vm.forward_line(gsi()).unwrap();
    let mut vcpu = take(&vm, 0, Doing::Spins, 0, PINS | PV_EOI | WORK | SAY_SO);
    add_work(&vm, 0);
    let said = std::thread::scope(|scope| {
        scope.spawn(|| {
            await_that("the guest's first round", || begun(&vm, 0) > 0);
            line.raise();
        });
        step(&mut vcpu, VmEntry::Resume).unwrap()
    });
    assert!(
        matches!(said, VmExit::PioOut { port: SAID, .. }),
        "{said:?}"
    );
    line.raise();
    assert!(!line.has_ended());
    signal(sandbox, Signal::KILL).unwrap();
    let ended = step(&mut vcpu, VmEntry::Resume).unwrap_err();
    assert!(
        chain(&ended).contains("the sandbox ended"),
        "{}",
        chain(&ended)
    );
    await_that("the end", || line.has_ended());
    line.raise();
    assert!(line.has_ended());
    drop((vm, vcpu));
    line.raise();
    assert!(line.has_ended());
}

/// Returns a guest that runs scripts, with pin 4 level-triggered.
fn logged(vm: &Arc<dyn Vm>, options: u64) -> Logged<'_> {
    const IOAPIC: u64 = 0xfec0_0000;
    let mut guest = Logged::new(vm, options);
    guest.play(&[
        Op::Store(4, IOAPIC, 0x18),
        Op::Store(4, IOAPIC + 0x10, 0x8000 | u64::from(LEVEL)),
        Op::WriteMsr(MSR_PV_EOI, WORD | 1),
        Op::Unmask,
    ]);
    guest
}

fn a_guest_that_never_ends_its_interrupt_takes_exactly_one<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let line = vm.forward_line(gsi()).unwrap();
    let mut guest = logged(&vm, 0);
    line.raise();
    assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), whole(LEVEL));
    for _ in 0..100 {
        line.raise();
        assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), [0_u64; 0]);
        assert!(!line.has_ended());
    }
    // After the EOI the latched interrupt comes.
    guest.set(EOI);
    assert_eq!(guest.log(&[Op::WriteMsr(0x80b, 0)]), whole(LEVEL));
    assert!(line.has_ended());
}

fn a_bit_that_the_guest_clears_or_moves_at_will_costs_only_its_own_interrupts<H: Hypervisor>(
    h: &H,
) {
    let vm = configured(h, with_interrupts(1));
    let line = vm.forward_line(gsi()).unwrap();
    let mut guest = logged(&vm, BY_BIT | EOI);
    for round in 0..200_u64 {
        line.raise();
        let moved = WORD + 4 * (round % 3);
        guest.play(&[
            Op::Store(1, WORD, round & 1),
            Op::WriteMsr(MSR_PV_EOI, moved | 1),
            Op::Store(1, moved, round >> 1 & 1),
            Op::WriteMsr(0x80b, 0),
            Op::WriteMsr(MSR_PV_EOI, WORD | 1),
        ]);
        let _ = line.has_ended();
    }
    guest.take_log();
    guest.play(&[Op::WriteMsr(0x80b, 0), Op::WriteMsr(0x80b, 0)]);
    assert!(line.has_ended());
    line.raise();
    guest.take_log();
    assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), whole(LEVEL));
    assert!(line.has_ended());
}

fn what_cannot_be_forwarded_is_refused<H: Hypervisor>(h: &H) {
    let refused = |result: Result<Box<dyn ForwardedLine>, Error>| match result {
        Err(Error::Irq(error)) => error,
        other => panic!("{other:?}"),
    };
    let vm = plain(h);
    assert!(matches!(
        refused(vm.forward_line(gsi())),
        IrqError::NoIrqchip
    ));
    let vm = configured(h, with_interrupts(1));
    let beyond = Gsi::new(24).unwrap();
    let error = refused(vm.forward_line(beyond));
    assert!(matches!(error, IrqError::NoLine { .. }), "{error}");
    let message = Target::Msi(Msi::fixed(0, LEVEL));
    let route = |gsi, target| Route { gsi, target };
    vm.set_routing(&[route(gsi(), Target::Pin(4)), route(beyond, message)])
        .unwrap();
    let error = refused(vm.forward_line(beyond));
    assert!(error.to_string().contains("leads to no pin"), "{error}");
    let (irqfd, told) = (event(), event());
    let registered = vm.register_irqfd(&irqfd, gsi(), Some(&told)).unwrap();
    let error = refused(vm.forward_line(gsi()));
    assert!(matches!(error, IrqError::Resampled { .. }), "{error}");
    drop(registered);
    let line = vm.forward_line(gsi()).unwrap();
    let error = refused(vm.forward_line(gsi()));
    assert!(matches!(error, IrqError::Forwarded { .. }), "{error}");
    let error = vm.register_irqfd(&irqfd, gsi(), Some(&told)).unwrap_err();
    assert!(chain(&error).contains("is forwarded already"), "{error}");
    drop(line);
    // The guest makes the pin edge-triggered.
    let mut guest = Logged::new(&vm, 0);
    guest.play(&[
        Op::Store(4, 0xfec0_0000, 0x18),
        Op::Store(4, 0xfec0_0010, LEVEL.into()),
    ]);
    let error = refused(vm.forward_line(gsi()));
    assert!(error.to_string().contains("edge-triggered"), "{error}");
}

fn a_backend_without_forwarded_lines_says_why<H: Hypervisor>(h: &H) {
    let support = h.support(Capability::ForwardedLines).to_string();
    assert!(support.contains("resamplefd"), "{support}");
    let vm = configured(h, with_interrupts(1));
    let error = vm.forward_line(gsi()).unwrap_err();
    assert!(chain(&error).contains("no forwarded-lines"), "{error}");
}

testbed::on_usermode! {
    none_of_many_is_lost_and_nearly_all_end_by_the_bit;
    a_guest_without_the_bit_ends_them_by_the_register;
    edges_that_come_while_one_is_active_are_one_more;
    a_level_that_stays_up_is_taken_again_until_it_is_down;
    after_an_undo_in_mid_interrupt_the_line_resamples_and_can_be_forwarded_again;
    an_edge_that_was_latched_before_the_undo_is_still_taken;
    nothing_is_under_way_once_the_guest_was_killed;
    a_guest_that_never_ends_its_interrupt_takes_exactly_one;
    a_bit_that_the_guest_clears_or_moves_at_will_costs_only_its_own_interrupts;
    what_cannot_be_forwarded_is_refused;
}

testbed::on_kvm! {
    a_backend_without_forwarded_lines_says_why;
}
