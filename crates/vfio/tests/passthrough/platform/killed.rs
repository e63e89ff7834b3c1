//! A guest ends while its forwarded interrupt is active: the host gets the interrupt back.

use std::io::{BufRead, BufReader, Write, stdout};
use std::process::{Child, Command, Stdio};

use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::placed::Handover;

use super::guest::Guest;
use super::{Clock, alone_with_clock};
use crate::passthrough::holdings::Holdings;
use testbed::await_that;
use testbed::process::alone;

/// Set in a process that is to be killed.
const VICTIM: &str = "VMBELL_TEST_VICTIM";
/// What that process prints when its guest has an active interrupt.
const ACTIVE: &str = "the interrupt is active";

const KILLS: u64 = 3;
const ENDS: u64 = 20;

fn clock_of_a_process_that_is_killed_in_mid_interrupt_works_again<H: Hypervisor>(h: &H) {
    if std::env::var_os(VICTIM).is_some() {
        return be_killed(h);
    }
    let _alone = alone_with_clock();
    for _ in 0..KILLS {
        let mut victim = victim();
        assert!(Clock::again().is_err(), "the other process has the clock");
        victim.kill().unwrap();
        victim.wait().unwrap();
        works_again(h);
    }
}

/// Starts a process of this test whose guest has an active interrupt.
fn victim() -> Child {
    let thread = std::thread::current();
    let name = thread.name().expect("a test's thread has its name");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--include-ignored", "--nocapture"]);
    command.env(VICTIM, "1").stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains(ACTIVE)));
    assert!(said.is_some(), "the process that is to be killed has ended");
    child
}

fn be_killed<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let placed = guest.wired(&clock, Handover::Forwarded);
    let mut vcpu = guest.start();
    guest.while_taking(&mut vcpu, || {
        guest.hold();
        await_that("the interrupt to be active", || {
            placed.forwarded().unwrap()[0].is_active
        });
        println!("{ACTIVE}");
        stdout().flush().unwrap();
        loop {
            std::thread::park();
        }
    });
}

/// Fails unless the clock can be opened soon, and interrupts over both paths.
fn works_again<H: Hypervisor>(h: &H) {
    let mut opened = None;
    await_that("the clock", || {
        opened = Clock::again().ok();
        opened.is_some()
    });
    let clock = opened.unwrap();
    for handover in [Handover::Irqfd, Handover::Forwarded, Handover::Irqfd] {
        let guest = Guest::new(h);
        let placed = guest.wired(&clock, handover);
        let mut vcpu = guest.start();
        guest.take(&mut vcpu, 20);
        assert_eq!((guest.served(), guest.spurious()), (20, 0), "{handover:?}");
        drop(placed);
    }
}

fn guest_that_ends_in_mid_interrupt_leaves_nothing<H: Hypervisor>(h: &H) {
    // The other process, which uses the device for this test, has its own lock.
    let _alone = alone_with_clock();
    alone(|| {
        ends(h, 0);
        let after_first = Holdings::now();
        for round in 1..ENDS {
            ends(h, round);
            after_first.await_again();
        }
        works_again(h);
        for what in ["vfio", "kvm-v"] {
            assert_eq!(Holdings::now().named(what), [""; 0], "{what}");
        }
    });
}

/// Ends a guest with an active interrupt, in one of the orders in which its parts can go.
fn ends<H: Hypervisor>(h: &H, round: u64) {
    let mut opened = None;
    await_that("the clock", || {
        opened = Clock::again().ok();
        opened.is_some()
    });
    let clock = opened.unwrap();
    let guest = Guest::new(h);
    let placed = guest.wired(&clock, Handover::Forwarded);
    let mut vcpu = guest.start();
    guest.while_taking(&mut vcpu, || {
        guest.await_more("interrupts", 1 + round % 3);
        guest.hold();
        await_that("the interrupt to be active", || {
            placed.forwarded().unwrap()[0].is_active
        });
    });
    match round % 3 {
        0 => drop((vcpu, guest, placed, clock)),
        1 => drop((clock, placed, guest, vcpu)),
        _ => drop((placed, vcpu, clock, guest)),
    }
}

testbed::on_kvm! {
    clock_of_a_process_that_is_killed_in_mid_interrupt_works_again;
    guest_that_ends_in_mid_interrupt_leaves_nothing;
}
