//! Interrupts sent while a vCPU enters or leaves its guest or sleeps, in every interleaving with at most three
//! preemptions.
//!
//! A thread that waits for an event that never comes is blocked forever. The checker reports this as a deadlock, so a
//! lost wake-up fails the test.

use loom::sync::Arc;
use loom::thread;

use super::check;
use super::vcpu::{Idle, STOP, Shared, Vcpu};

const LOW: u8 = 0x41;
const HIGH: u8 = 0x51;

/// Sends each of `vectors` from a separate thread, at any time. The vCPU must take every accepted interrupt exactly
/// once.
fn sent_by_others(idle: Idle, pv_eoi: bool, vectors: &'static [u8]) {
    check(move || {
        let shared = Shared::new();
        let vcpu = Vcpu::start(&shared, idle, pv_eoi);
        let (first, others) = vectors.split_first().unwrap();
        let elsewhere = |vector: &'static u8| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.send(*vector).then_some(*vector))
        };
        let threads: Vec<_> = others.iter().map(elsewhere).collect();
        let mut sent = Vec::from_iter(shared.send(*first).then_some(*first));
        for thread in threads {
            sent.extend(thread.join().unwrap());
        }
        assert!(shared.send(STOP));
        sent.push(STOP);
        let mut taken = vcpu.join().unwrap();
        taken.sort_unstable();
        sent.sort_unstable();
        assert_eq!(taken, sent);
    });
}

#[test]
fn request_to_a_running_guest_is_not_lost() {
    sent_by_others(Idle::Spins, false, &[LOW]);
}

#[test]
fn request_to_a_halting_guest_is_not_lost() {
    sent_by_others(Idle::Halts, false, &[LOW]);
    sent_by_others(Idle::HaltsInEpoll, false, &[LOW]);
}

#[test]
fn request_behind_an_eoi_that_was_spared_is_not_lost() {
    sent_by_others(Idle::Spins, true, &[LOW]);
    sent_by_others(Idle::Halts, true, &[LOW]);
}

#[test]
fn two_senders_to_a_running_guest_make_one_signal_do() {
    sent_by_others(Idle::Spins, true, &[LOW, HIGH]);
}

#[test]
fn two_senders_to_a_halting_guest_lose_nothing() {
    sent_by_others(Idle::Halts, true, &[LOW, HIGH]);
    sent_by_others(Idle::HaltsInEpoll, true, &[LOW, HIGH]);
}

#[test]
fn one_vector_from_two_senders_comes_as_often_as_it_was_accepted() {
    sent_by_others(Idle::Spins, false, &[LOW, LOW]);
}

#[test]
fn kick_that_meets_a_halt_is_not_slept_through() {
    for idle in [Idle::Halts, Idle::HaltsInEpoll, Idle::Spins] {
        check(move || {
            let shared = Shared::new();
            let vcpu = Vcpu::start(&shared, idle, false);
            shared.kernel.kick();
            let mut kicks = shared.kicks.lock().unwrap();
            while *kicks == 0 {
                kicks = shared.handed_over.wait(kicks).unwrap();
            }
            drop(kicks);
            assert!(shared.send(STOP));
            assert_eq!(vcpu.join().unwrap(), [STOP]);
        });
    }
}
