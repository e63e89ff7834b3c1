//! A vCPU's thread that takes the steps of the stub's `interrupt` and `kick` modules, with the kernel's state for that
//! thread and its senders: pending signals, a futex and an epoll descriptor.
//!
//! Mode word, local APIC, message and paravirtual EOI are the real code.

use std::cell::Cell;

use loom::sync::atomic::Ordering::SeqCst;
use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
use loom::thread::{self, JoinHandle};

use super::lapic;
use crate::lapic::{Destination, Lapic, Message, Mode, Raise};
use crate::pv_eoi::{Completion, GuestByte, PvEoi};
use crate::vcpu_mode::{Notification, VcpuMode};

/// The vector that ends the guest. It is the lowest vector, so it is taken last.
pub const STOP: u8 = 0x21;
const PV_EOI: u64 = 0x3001;

/// The state that senders and the vCPU share.
pub struct Shared {
    lapic: Lapic,
    mode: VcpuMode,
    pub kernel: Kernel,
    /// How many kicks the vCPU has handed over.
    pub kicks: Mutex<u32>,
    pub handed_over: Condvar,
}

impl Shared {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            lapic: lapic(),
            mode: VcpuMode::default(),
            kernel: Kernel::default(),
            kicks: Mutex::new(0),
            handed_over: Condvar::new(),
        })
    }

    /// Sends a vector and returns whether it became a separate interrupt.
    pub fn send(&self, vector: u8) -> bool {
        let message = Message {
            vector,
            mode: Mode::Fixed,
            level: false,
            destination: Destination::narrow(0, false),
        };
        let raise = message.deliver(std::iter::once(&self.lapic), |_| {
            match self.mode.claim_notification() {
                Notification::None => {}
                Notification::Signal => self.kernel.interrupt(),
                Notification::FutexWake => self.kernel.futex_wake(),
                Notification::EventfdWrite => self.kernel.write_eventfd(),
            }
        });
        assert_ne!(raise, Raise::Refused);
        raise == Raise::Accepted
    }
}

/// What the guest does between interrupts.
#[derive(Clone, Copy)]
pub enum Idle {
    Spins,
    Halts,
    /// Halts in `epoll_wait` until the wake eventfd is written.
    HaltsInEpoll,
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

/// The state of the vCPU's thread.
pub struct Vcpu {
    shared: Arc<Shared>,
    pv_eoi: PvEoi,
    word: Word,
    /// The vector whose handler was entered but has not yet run an instruction.
    handler: Option<u8>,
    masked: bool,
    /// Whether the return from the handler traps.
    window: bool,
    kicked: bool,
    begun: Vec<u8>,
    ended: Vec<u8>,
}

impl Vcpu {
    /// Runs the vCPU on its own thread until it has taken [`STOP`]. The thread returns the vectors that
    /// the vCPU took.
    pub fn start(shared: &Arc<Shared>, idle: Idle, pv_eoi: bool) -> JoinHandle<Vec<u8>> {
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
                (None, Idle::HaltsInEpoll) => self.halt(true),
            }
        }
        self.leave();
        assert_eq!(self.ended, self.begun);
        self.begun
    }

    /// Runs the guest's handler, from its first instruction to its `iretq`.
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

    /// Runs one instruction of the guest. A signal may arrive before it.
    fn instruction(&mut self) {
        let signals = self.shared.kernel.take();
        if signals.interrupt || signals.kick {
            self.interrupted(&signals);
        }
    }

    /// Takes signals that interrupted guest code (`interrupt::handle_signal`, `kick::handle_in_guest`).
    fn interrupted(&mut self, signals: &Pending) {
        self.leave();
        if signals.interrupt {
            self.shared.mode.signal_arrived();
        }
        self.kicked |= signals.kick;
        self.enter();
    }

    /// Takes signals that interrupt the stub (`kick::handle_in_stub`), and returns whether there were any.
    fn interrupted_in_stub(&mut self) -> bool {
        let signals = self.shared.kernel.take();
        if signals.interrupt {
            self.shared.mode.signal_arrived();
        }
        if signals.kick {
            self.kicked = true;
            if self.shared.mode.wake() {
                self.shared.kernel.write_eventfd();
            }
        }
        signals.interrupt || signals.kick
    }

    /// Models `interrupt::leave`.
    fn leave(&mut self) {
        self.shared.mode.leave();
        if let Completion::Completed(eoi) = self.pv_eoi.complete(&self.shared.lapic, &self.word) {
            self.ended.extend(eoi.map(|eoi| eoi.vector));
        }
    }

    fn eoi(&mut self) {
        let eoi = self.shared.lapic.eoi();
        self.ended.extend(eoi.map(|eoi| eoi.vector));
    }

    /// Models `interrupt::enter`, followed by the exit sequence, whose last step checks for pending signals.
    fn enter(&mut self) {
        loop {
            if !self.kicked {
                self.shared.mode.enter();
                self.offer();
            }
            if !self.interrupted_in_stub() && !self.kicked {
                return;
            }
            self.leave();
            self.hand_over();
        }
    }

    /// Models `inject::inject_pending`.
    fn offer(&mut self) {
        let lapic = &self.shared.lapic;
        let next = lapic.next_interrupt();
        self.window = next.is_some();
        if let Some(vector) = next
            && !self.masked
        {
            assert!(lapic.start_service(vector));
            self.masked = true;
            self.handler = Some(vector);
            self.begun.push(vector);
            self.pv_eoi.arm(lapic, &self.word);
            self.window = lapic.next_interrupt().is_some();
        }
    }

    /// Models `halt::halt`.
    fn halt(&mut self, in_epoll: bool) {
        self.leave();
        loop {
            let expected = if in_epoll {
                self.shared.mode.halt_in_epoll();
                0
            } else {
                self.shared.mode.halt_in_futex()
            };
            self.interrupted_in_stub();
            if self.kicked {
                self.shared.mode.wake();
                self.hand_over();
                continue;
            }
            if self.shared.lapic.next_interrupt().is_some() {
                break;
            }
            self.interrupted_in_stub();
            if in_epoll {
                self.shared.kernel.epoll_wait();
            } else {
                self.shared.kernel.futex_wait(&self.shared.mode, expected);
            }
        }
        self.shared.mode.wake();
        self.enter();
    }

    fn hand_over(&mut self) {
        if std::mem::take(&mut self.kicked) {
            *self.shared.kicks.lock().unwrap() += 1;
            self.shared.handed_over.notify_all();
        }
    }
}

/// Signals that are pending for the thread.
#[derive(Default)]
pub struct Pending {
    pub interrupt: bool,
    pub kick: bool,
}

/// The state that the kernel keeps for the vCPU's thread.
#[derive(Default)]
struct Waiting {
    signals: Pending,
    /// Whether the wake eventfd was written since the last wait on the epoll descriptor.
    edge: bool,
}

/// The kernel, as the vCPU's thread and its senders use it.
#[derive(Default)]
pub struct Kernel {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Kernel {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap()
    }

    pub fn interrupt(&self) {
        let was = std::mem::replace(&mut self.waiting().signals.interrupt, true);
        assert!(!was, "one signal is enough, and is on its way");
        self.changed.notify_all();
    }

    pub fn kick(&self) {
        self.waiting().signals.kick = true;
        self.changed.notify_all();
    }

    pub fn write_eventfd(&self) {
        self.waiting().edge = true;
        self.changed.notify_all();
    }

    pub fn take(&self) -> Pending {
        std::mem::take(&mut self.waiting().signals)
    }

    /// Runs guest code until a signal interrupts it.
    pub fn run_guest(&self) -> Pending {
        let mut waiting = self.waiting();
        while !waiting.signals.any() {
            waiting = self.changed.wait(waiting).unwrap();
        }
        std::mem::take(&mut waiting.signals)
    }

    pub fn futex_wait(&self, mode: &VcpuMode, expected: u32) {
        let waiting = self.waiting();
        let signalled = waiting.signals.any();
        // Under the lock, because the kernel also compares under the lock of the futex's queue.
        if !signalled && mode.word().load(SeqCst) == expected {
            drop(self.changed.wait(waiting).unwrap());
        }
    }

    pub fn futex_wake(&self) {
        let _queue = self.waiting();
        self.changed.notify_all();
    }

    pub fn epoll_wait(&self) {
        let mut waiting = self.waiting();
        while !waiting.edge && !waiting.signals.any() {
            waiting = self.changed.wait(waiting).unwrap();
        }
        waiting.edge = false;
    }
}

impl Pending {
    pub fn any(&self) -> bool {
        self.interrupt || self.kick
    }
}
