//! A relay passes the signals of one eventfd on to several, on a thread of its own (`vmbell-relay`).
//!
//! KVM signals one eventfd for each write. For group items that share one match the kernel therefore gets the
//! eventfd of a relay, and the relay signals the eventfds of the items. A ring reaches an item one wake-up
//! later than with a doorbell of its own. No ring is lost, doubled, or passed on to an item that has left.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::super::Error;
use vmbell::eventfd::EventId;
use vmbell::thread::{self, ThreadKind};

/// A group item: an eventfd of the user and its identity.
#[derive(Debug)]
pub struct Item {
    pub id: EventId,
    pub event: EventFd,
}

/// The relay of one match of a group.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
    stop: EventFd,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    bell: EventFd,
    items: Mutex<Vec<Item>>,
}

impl Shared {
    /// Passes all rings up to now on to `items`. The count is taken and passed on under one lock, so the next
    /// holder of the lock finds no ring half passed on.
    fn pass_on(&self, items: &[Item]) {
        // The read fails if there was no ring.
        let rings = self.bell.read().unwrap_or_default();
        for item in items.iter().filter(|_| rings > 0) {
            // The write fails only if the count is at its limit; then the reader is notified anyway.
            let _ = item.event.write(rings);
        }
    }
}

impl Relay {
    /// Starts a relay to these items.
    pub fn start(items: Vec<Item>) -> Result<Self, Error> {
        let failed = Error::system("start a relay for a group of doorbells");
        let bell = EventFd::new(EFD_NONBLOCK).map_err(failed)?;
        let stop = EventFd::new(EFD_NONBLOCK).map_err(failed)?;
        let epoll = Epoll::new().map_err(failed)?;
        let watched: [(&EventFd, u64); 2] = [(&bell, BELL), (&stop, STOP)];
        for (event, what) in watched {
            let interest = EpollEvent::new(EventSet::IN, what);
            epoll
                .ctl(ControlOperation::Add, raw(event), interest)
                .map_err(failed)?;
        }
        let shared = Arc::new(Shared {
            bell,
            items: Mutex::new(items),
        });
        let worker = Arc::clone(&shared);
        let thread = thread::spawn(ThreadKind::Device, "vmbell-relay", move || {
            work(&worker, &epoll);
        })
        .map_err(failed)?;
        Ok(Self {
            shared,
            stop,
            thread: Some(thread),
        })
    }

    /// The eventfd that the kernel signals.
    pub fn bell(&self) -> &EventFd {
        &self.shared.bell
    }

    /// Adds an item, which gets every ring from now on.
    pub fn add(&self, item: Item) {
        let mut items = self.items();
        // Earlier rings go only to the other items.
        self.shared.pass_on(&items);
        items.push(item);
    }

    /// Removes an item. It has got every ring up to now and gets none from now on. Returns whether there was
    /// such an item.
    pub fn remove(&self, id: EventId) -> bool {
        let mut items = self.items();
        self.shared.pass_on(&items);
        let before = items.len();
        items.retain(|item| item.id != id);
        items.len() < before
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.items().len()
    }

    /// Whether an eventfd is one of the items.
    pub fn has(&self, id: EventId) -> bool {
        self.items().iter().any(|item| item.id == id)
    }

    fn items(&self) -> std::sync::MutexGuard<'_, Vec<Item>> {
        self.shared
            .items
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // The counter is 0, so the write succeeds.
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

const BELL: u64 = 0;
const STOP: u64 = 1;

fn raw(event: &EventFd) -> i32 {
    std::os::fd::AsRawFd::as_raw_fd(event)
}

fn work(shared: &Shared, epoll: &Epoll) {
    let mut ready = [EpollEvent::default(); 2];
    loop {
        let count = match epoll.wait(-1, &mut ready) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // No other error is possible with an open descriptor and a valid buffer.
            Err(_) => return,
        };
        if ready[..count].iter().any(|event| event.data() == STOP) {
            return;
        }
        let items = shared.items.lock().unwrap_or_else(PoisonError::into_inner);
        shared.pass_on(&items);
    }
}

#[cfg(test)]
#[path = "relay_test.rs"]
mod tests;
