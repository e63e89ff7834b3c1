//! The kernel's side of a vCPU's thread and of its senders: pending signals, a futex and an epoll descriptor.

use crate::vcpu_mode::VcpuMode;
use loom::sync::atomic::Ordering::SeqCst;
use loom::sync::{Condvar, Mutex, MutexGuard};

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

/// The kernel as the vCPU's thread and its senders use it.
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
        // Under the lock, as the kernel compares under the lock of the futex's queue.
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
