//! Interrupts sent while a vCPU goes into its guest, out of it and to sleep, in every interleaving with
//! at most three preemptions.
//!
//! Presence, local APIC, message and PV EOI are the real ones. The vCPU takes the steps of the stub's
//! `interrupt` and `kick` modules; the kernel is a set of pending signals and a futex. Who waits for
//! what never comes stands still, and the checker calls that a deadlock: so a lost wake-up fails.

use std::cell::Cell;

use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
use loom::thread::{self, JoinHandle};
use stub::lapic::{Lapic, Raise};
use stub::presence::{Presence, Tell};
use stub::pv_eoi::{Completion, GuestByte, PvEoi};

use super::lapic;
use crate::irq::Msi;
use crate::quiesce::models::check;

const LOW: u8 = 0x41;
const HIGH: u8 = 0x51;
/// Ends the guest when nothing else is left. The lowest.
const STOP: u8 = 0x21;
const PV_EOI: u64 = 0x3001;

/// Signals that came and were not taken.
#[derive(Default)]
struct Pending {
    interrupt: bool,
    kick: bool,
}

/// What the kernel keeps for the vCPU's thread.
#[derive(Default)]
struct Waiting {
    signals: Pending,
    /// The bell was rung since the last look at the epoll descriptor.
    edge: bool,
}

/// What the kernel does for the vCPU's thread.
struct Kernel {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Kernel {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap()
    }

    fn interrupt(&self) {
        let was = std::mem::replace(&mut self.waiting().signals.interrupt, true);
        assert!(!was, "one signal is enough, and is on its way");
        self.changed.notify_all();
    }

    fn kick(&self) {
        self.waiting().signals.kick = true;
        self.changed.notify_all();
    }

    fn ring(&self) {
        self.waiting().edge = true;
        self.changed.notify_all();
    }

    fn take(&self) -> Pending {
        std::mem::take(&mut self.waiting().signals)
    }

    /// The guest's code, until a signal gets it out.
    fn run_guest(&self) -> Pending {
        let mut waiting = self.waiting();
        while !waiting.signals.any() {
            waiting = self.changed.wait(waiting).unwrap();
        }
        std::mem::take(&mut waiting.signals)
    }

    fn futex_wait(&self, presence: &Presence, expected: u32) {
        let waiting = self.waiting();
        let signalled = waiting.signals.any();
        // Under the lock, as the kernel compares under that of the futex's queue.
        if !signalled && presence.word().load(loom::sync::atomic::Ordering::SeqCst) == expected {
            drop(self.changed.wait(waiting).unwrap());
        }
    }

    fn futex_wake(&self) {
        let _queue = self.waiting();
        self.changed.notify_all();
    }

    fn epoll_wait(&self) {
        let mut waiting = self.waiting();
        while !waiting.edge && !waiting.signals.any() {
            waiting = self.changed.wait(waiting).unwrap();
        }
        waiting.edge = false;
    }
}

impl Pending {
    fn any(&self) -> bool {
        self.interrupt || self.kick
    }
}

/// What senders and vCPU share.
struct Shared {
    lapic: Lapic,
    presence: Presence,
    kernel: Kernel,
    /// Kicks that the vCPU has handed over.
    kicks: Mutex<u32>,
    handed_over: Condvar,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lapic: lapic(),
            presence: Presence::default(),
            kernel: Kernel {
                waiting: Mutex::new(Waiting::default()),
                changed: Condvar::new(),
            },
            kicks: Mutex::new(0),
            handed_over: Condvar::new(),
        })
    }

    /// Sends a vector; whether it became an interrupt of its own.
    fn send(&self, vector: u8) -> bool {
        let message = Msi::fixed(0, vector).message().unwrap();
        let raise = message.deliver(std::iter::once(&self.lapic), |_| {
            match self.presence.tell() {
                Tell::Nothing => {}
                Tell::Signal => self.kernel.interrupt(),
                Tell::Wake => self.kernel.futex_wake(),
                Tell::Ring => self.kernel.ring(),
            }
        });
        assert_ne!(raise, Raise::Refused);
        raise == Raise::Accepted
    }
}

/// What the guest does between interrupts.
#[derive(Clone, Copy)]
enum Idle {
    Spins,
    Halts,
    /// Halts and sleeps in an epoll descriptor, until an irqfd or its bell wakes it.
    HaltsByBell,
}

struct Word(Cell<u8>);

impl GuestByte for Word {
    fn read(&self, _: u64) -> Option<u8> {
        Some(self.0.get())
    }

    fn write(&self, _: u64, value: u8) -> bool {
        self.0.set(value);
        true
    }
}

/// The vCPU's thread, in and out of its guest.
struct Vcpu {
    shared: Arc<Shared>,
    pv_eoi: PvEoi,
    word: Word,
    /// The handler that was entered.
    handler: Option<u8>,
    masked: bool,
    /// The return from the handler traps.
    window: bool,
    kicked: bool,
    begun: Vec<u8>,
    ended: Vec<u8>,
}

impl Vcpu {
    /// Lets it run on a thread of its own, to its [`STOP`]; the vectors that it took.
    fn start(shared: &Arc<Shared>, idle: Idle, pv_eoi: bool) -> JoinHandle<Vec<u8>> {
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            let vcpu = Self {
                shared,
                pv_eoi: PvEoi::default(),
                word: Word(Cell::new(0)),
                handler: None,
                masked: false,
                window: false,
                kicked: false,
                begun: Vec::new(),
                ended: Vec::new(),
            };
            if pv_eoi {
                vcpu.pv_eoi.write_msr(PV_EOI, |_| true).unwrap();
            }
            vcpu.run(idle)
        })
    }

    fn run(mut self, idle: Idle) -> Vec<u8> {
        self.enter();
        loop {
            match (self.handler.take(), idle) {
                (Some(_), _) => self.handle(),
                (None, _) if self.begun.contains(&STOP) => break,
                (None, Idle::Spins) => {
                    let signals = self.shared.kernel.run_guest();
                    self.interrupted(&signals);
                }
                (None, Idle::Halts) => self.halt(false),
                (None, Idle::HaltsByBell) => self.halt(true),
            }
        }
        self.leave();
        assert_eq!(self.ended, self.begun);
        self.begun
    }

    /// The guest's handler, from behind its entry to its `iretq`.
    fn handle(&mut self) {
        self.instruction();
        if self.word.0.replace(0) == 0 {
            self.leave();
            self.eoi();
            self.enter();
        }
        self.instruction();
        self.masked = false;
        if self.window {
            self.leave();
            self.enter();
        }
    }

    /// Before each instruction of the guest's a signal may come.
    fn instruction(&mut self) {
        let signals = self.shared.kernel.take();
        if signals.interrupt || signals.kick {
            self.interrupted(&signals);
        }
    }

    /// Signals that found the vCPU in the guest (`interrupt::arrive`, `kick::arrive`).
    fn interrupted(&mut self, signals: &Pending) {
        self.leave();
        if signals.interrupt {
            self.shared.presence.arrived();
        }
        self.kicked |= signals.kick;
        self.enter();
    }

    /// Signals that find it in the stub (`kick::arrive_in_stub`); whether any did.
    fn interrupted_in_stub(&mut self) -> bool {
        let signals = self.shared.kernel.take();
        if signals.interrupt {
            self.shared.presence.arrived();
        }
        if signals.kick {
            self.kicked = true;
            if self.shared.presence.wake() {
                self.shared.kernel.ring();
            }
        }
        signals.interrupt || signals.kick
    }

    /// `interrupt::leave`.
    fn leave(&mut self) {
        self.shared.presence.leave();
        if let Completion::Completed(eoi) = self.pv_eoi.complete(&self.shared.lapic, &self.word) {
            self.ended.extend(eoi.map(|eoi| eoi.vector));
        }
    }

    fn eoi(&mut self) {
        let eoi = self.shared.lapic.eoi();
        self.ended.extend(eoi.map(|eoi| eoi.vector));
    }

    /// `interrupt::enter` and the exit sequence, which looks last at what signals have noted.
    fn enter(&mut self) {
        loop {
            if !self.kicked {
                self.shared.presence.enter();
                self.offer();
            }
            if !self.interrupted_in_stub() && !self.kicked {
                return;
            }
            self.leave();
            self.hand_over();
        }
    }

    /// `inject::offer`.
    fn offer(&mut self) {
        let lapic = &self.shared.lapic;
        let next = lapic.next();
        self.window = next.is_some();
        if let Some(vector) = next
            && !self.masked
        {
            assert!(lapic.begin(vector));
            self.masked = true;
            self.handler = Some(vector);
            self.begun.push(vector);
            self.pv_eoi.arm(lapic, &self.word);
            self.window = lapic.next().is_some();
        }
    }

    /// `halt::halt`.
    fn halt(&mut self, by_bell: bool) {
        self.leave();
        loop {
            let asleep = if by_bell {
                self.shared.presence.halt_by_bell();
                0
            } else {
                self.shared.presence.halt()
            };
            self.interrupted_in_stub();
            if self.kicked {
                self.shared.presence.wake();
                self.hand_over();
                continue;
            }
            if self.shared.lapic.next().is_some() {
                break;
            }
            self.interrupted_in_stub();
            if by_bell {
                self.shared.kernel.epoll_wait();
            } else {
                self.shared.kernel.futex_wait(&self.shared.presence, asleep);
            }
        }
        self.shared.presence.wake();
        self.enter();
    }

    fn hand_over(&mut self) {
        if std::mem::take(&mut self.kicked) {
            *self.shared.kicks.lock().unwrap() += 1;
            self.shared.handed_over.notify_all();
        }
    }
}

/// Each of `vectors` is sent by a thread of its own, to a vCPU that is anywhere: all that became
/// interrupts are taken, each once.
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
    sent_by_others(Idle::HaltsByBell, false, &[LOW]);
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
    sent_by_others(Idle::HaltsByBell, true, &[LOW, HIGH]);
}

#[test]
fn one_vector_from_two_senders_comes_as_often_as_it_was_accepted() {
    sent_by_others(Idle::Spins, false, &[LOW, LOW]);
}

#[test]
fn kick_that_meets_a_halt_is_not_slept_through() {
    for idle in [Idle::Halts, Idle::HaltsByBell, Idle::Spins] {
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
