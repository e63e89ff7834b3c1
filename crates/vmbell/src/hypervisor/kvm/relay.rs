//! Several eventfds for one: a thread that passes every ring on.
//!
//! The kernel signals one eventfd a write. Items of a group that share one match therefore hang at
//! a relay, whose eventfd the kernel knows. A ring reaches them one wake-up later than a doorbell
//! of its own would, and none is lost, doubled, or passed on to an item that has left.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::super::Error;
use crate::doorbell::EventId;

/// One item: an eventfd of the user's, and which one it is.
#[derive(Debug)]
pub struct Item {
    pub id: EventId,
    pub event: EventFd,
}

/// The relay of one match.
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
    /// Passes the rings so far on to all items. The count is taken and passed on under one lock, so
    /// that whoever holds it next finds nothing under way.
    fn pass_on(&self, items: &[Item]) {
        // Nothing to read is no ring.
        let rings = self.bell.read().unwrap_or_default();
        for item in items.iter().filter(|_| rings > 0) {
            // A counter at its limit has news for its reader anyway.
            let _ = item.event.write(rings);
        }
    }
}

impl Relay {
    /// A relay to these items.
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
        let thread = std::thread::Builder::new()
            .name("vmbell-relay".into())
            .spawn(move || work(&worker, &epoll))
            .map_err(failed)?;
        Ok(Self {
            shared,
            stop,
            thread: Some(thread),
        })
    }

    /// The eventfd that the kernel is to signal.
    pub fn bell(&self) -> &EventFd {
        &self.shared.bell
    }

    /// Lets another item hear every ring from now on.
    pub fn add(&self, item: Item) {
        let mut items = self.items();
        // Rings of before are the others' alone.
        self.shared.pass_on(&items);
        items.push(item);
    }

    /// Takes an item out, which has heard every ring so far and hears none from now on. Whether it
    /// was there.
    pub fn remove(&self, id: EventId) -> bool {
        let mut items = self.items();
        self.shared.pass_on(&items);
        let before = items.len();
        items.retain(|item| item.id != id);
        items.len() < before
    }

    /// How many items hang here.
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
        // A fresh non-blocking counter takes the one.
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
            // No other error can come of a good epoll and a good buffer.
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
