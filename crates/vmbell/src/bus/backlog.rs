//! The backlog: work that a device's handler has begun and not finished.
//!
//! A handler runs on a vCPU's thread and must return soon, because the thread sees no kick meanwhile. Work that the
//! handler cannot finish in that time goes here. The exit loop of any vCPU continues the work, piece by piece, before
//! it enters the guest again.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sync::Mutex;

/// Work that is done in pieces.
pub trait Work: Send + Sync {
    /// Does one piece, which takes a bounded time; returns whether more work is left.
    fn go_on(&self) -> bool;
}

/// The unfinished work of the devices of one machine, in order of arrival. Clones share it.
#[derive(Clone, Default)]
pub struct Backlog(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// The length of the list, which exit loops load without the lock.
    len: AtomicUsize,
    list: Mutex<VecDeque<Arc<dyn Work>>>,
}

impl Backlog {
    /// Leaves `work` for an exit loop. Work that is already on the list is not added again, so that a guest cannot make
    /// the list grow without bound.
    pub fn leave(&self, work: Arc<dyn Work>) {
        let mut list = self.0.list.lock();
        if !list.iter().any(|waiting| Arc::ptr_eq(waiting, &work)) {
            list.push_back(work);
            self.0.len.store(list.len(), Ordering::Release);
        }
    }

    /// Whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len.load(Ordering::Acquire) == 0
    }

    /// Does one piece of the work that has waited longest, and puts the rest of that work at the end of the list.
    pub fn serve(&self) {
        let first = {
            let mut list = self.0.list.lock();
            let first = list.pop_front();
            self.0.len.store(list.len(), Ordering::Release);
            first
        };
        if let Some(work) = first
            && work.go_on()
        {
            self.leave(work);
        }
    }
}

impl fmt::Debug for Backlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.0.len.load(Ordering::Relaxed);
        f.debug_struct("Backlog").field("len", &len).finish()
    }
}

#[cfg(test)]
#[path = "backlog_test.rs"]
mod tests;
