//! A relay passes the signals of one eventfd on to several, on its guest's thread for all relays (`vmbell-relay`).
//!
//! KVM signals one eventfd for each write. For group items that share one match, it therefore signals the eventfd of a
//! relay, and the relay signals the items' eventfds. A ring reaches an item one wake-up later than through its own
//! doorbell. No ring is lost, duplicated, or passed on to an item that has left.

use std::sync::Arc;

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::super::Error;
use vmbell::eventfd::EventId;
use vmbell::sync::{Mutex, MutexGuard};
use vmbell::thread::{EventLoop, EventSet, ThreadKind, Token};

/// The thread of a guest's relays. The first relay starts it.
#[derive(Debug, Default)]
pub struct RelayThread(Mutex<Option<Arc<EventLoop>>>);

/// A group item: the user's eventfd and its identity.
#[derive(Debug)]
pub struct Item {
    pub id: EventId,
    pub event: EventFd,
}

/// The relay of one match of a group.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<RelayShared>,
    thread: Arc<EventLoop>,
    token: Token,
}

#[derive(Debug)]
struct RelayShared {
    bell: Arc<EventFd>,
    items: Mutex<Vec<Item>>,
}

impl RelayShared {
    fn items(&self) -> MutexGuard<'_, Vec<Item>> {
        self.items.lock()
    }

    /// Passes all rings up to now on to `items`. The count is read and passed on under one lock, so the next holder of
    /// the lock never sees a signal that is half passed on.
    fn pass_on(&self, items: &[Item]) {
        // The read fails if there was no ring.
        let rings = self.bell.read().unwrap_or_default();
        for item in items.iter().filter(|_| rings > 0) {
            // The write fails only if the count is at its limit; then the reader is notified anyway.
            let _ = item.event.write(rings);
        }
    }
}

impl RelayThread {
    fn get(&self) -> std::io::Result<Arc<EventLoop>> {
        let mut thread = self.0.lock();
        if let Some(thread) = &*thread {
            return Ok(Arc::clone(thread));
        }
        let new = Arc::new(EventLoop::new(ThreadKind::Device, "vmbell-relay")?);
        Ok(Arc::clone(thread.insert(new)))
    }
}

impl Relay {
    /// Starts a relay to these items.
    pub fn start(thread: &RelayThread, items: Vec<Item>) -> Result<Self, Error> {
        let failed = Error::system("start a relay for a group of doorbells");
        let thread = thread.get().map_err(failed)?;
        let bell = Arc::new(EventFd::new(EFD_NONBLOCK).map_err(failed)?);
        let shared = Arc::new(RelayShared {
            bell: Arc::clone(&bell),
            items: Mutex::new(items),
        });
        let theirs = Arc::clone(&shared);
        let pass_on = move || {
            theirs.pass_on(&theirs.items());
            false
        };
        let token = thread.add(bell, EventSet::IN, pass_on).map_err(failed)?;
        Ok(Self {
            shared,
            thread,
            token,
        })
    }

    /// The eventfd that the kernel signals.
    pub fn bell(&self) -> &EventFd {
        &self.shared.bell
    }

    /// Adds an item, which gets all later rings.
    pub fn add(&self, item: Item) {
        let mut items = self.shared.items();
        // Deliver earlier rings first, so that the new item does not get them.
        self.shared.pass_on(&items);
        items.push(item);
    }

    /// Removes an item. It gets every ring up to now and no later ones. Returns whether the item existed.
    pub fn remove(&self, id: EventId) -> bool {
        let mut items = self.shared.items();
        self.shared.pass_on(&items);
        let before = items.len();
        items.retain(|item| item.id != id);
        items.len() < before
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.shared.items().len()
    }

    /// Returns whether an eventfd is one of the items.
    pub fn has(&self, id: EventId) -> bool {
        self.shared.items().iter().any(|item| item.id == id)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // If a call is still running, it has its own list of items, and is the last call.
        let _ = self.thread.remove(self.token);
    }
}

#[cfg(test)]
#[path = "relay_test.rs"]
mod tests;
