//! The thread that waits for irqfds, one for each guest that has any.
//!
//! An eventfd cannot be told to send a signal, so somebody has to wait for those that others write.
//! For that it is held open, and never hangs up: where KVM drops an irqfd that all others have closed,
//! here it stays, with nobody left to signal it.
//! Devices of this process need none of it: they raise their interrupts directly.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::error::UsermodeError;
use super::vm::Guest;
use crate::eventfd::EventId;

/// The thread and what it waits for.
#[derive(Debug)]
pub struct IrqfdWatcher {
    waiting: Arc<Waiting>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Waiting {
    epoll: Epoll,
    /// By the number that epoll reports; 0 is `stop`.
    irqfds: Mutex<Irqfds>,
    stop: EventFd,
}

#[derive(Debug, Default)]
struct Irqfds {
    last: u64,
    events: HashMap<u64, (EventId, Arc<EventFd>)>,
}

const STOP: u64 = 0;

impl IrqfdWatcher {
    /// Starts the thread, which holds `guest` until the watcher is dropped.
    pub fn start(guest: Arc<Guest>) -> Result<Self, UsermodeError> {
        let failed = |operation| move |source| UsermodeError::System { operation, source };
        let stop = EventFd::new(EFD_NONBLOCK).map_err(failed("make an eventfd"))?;
        let epoll = Epoll::new().map_err(failed("make an epoll descriptor"))?;
        let entry = EpollEvent::new(EventSet::IN, STOP);
        let added = epoll.ctl(ControlOperation::Add, stop.as_raw_fd(), entry);
        added.map_err(failed("wait for an eventfd"))?;
        let waiting = Arc::new(Waiting {
            epoll,
            irqfds: Mutex::default(),
            stop,
        });
        let here = Arc::clone(&waiting);
        let thread = std::thread::Builder::new()
            .name("vmbell-irqfds".into())
            .spawn(move || here.run(&guest))
            .map_err(failed("start the irqfd thread"))?;
        Ok(Self {
            waiting,
            thread: Some(thread),
        })
    }

    /// Waits for one more.
    pub fn add(&self, id: EventId, event: &Arc<EventFd>) -> io::Result<()> {
        let mut irqfds = self.waiting.lock();
        let number = irqfds.last + 1;
        let entry = EpollEvent::new(EventSet::IN, number);
        let epoll = &self.waiting.epoll;
        epoll.ctl(ControlOperation::Add, event.as_raw_fd(), entry)?;
        irqfds.last = number;
        irqfds.events.insert(number, (id, Arc::clone(event)));
        Ok(())
    }

    /// Waits for it no more.
    pub fn remove(&self, id: EventId) {
        let mut irqfds = self.waiting.lock();
        let number = irqfds.events.iter().find(|(_, entry)| entry.0 == id);
        let number = number.map(|(number, _)| *number);
        if let Some((_, event)) = number.and_then(|number| irqfds.events.remove(&number)) {
            let (delete, entry) = (ControlOperation::Delete, EpollEvent::default());
            // Cannot fail for a descriptor that was added and is still open.
            let _ = self.waiting.epoll.ctl(delete, event.as_raw_fd(), entry);
        }
    }
}

impl Waiting {
    fn lock(&self) -> std::sync::MutexGuard<'_, Irqfds> {
        self.irqfds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, guest: &Guest) {
        let mut ready = [EpollEvent::default(); 32];
        loop {
            let count = match self.epoll.wait(-1, &mut ready) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Nothing else can fail with an open descriptor and room for the answer.
                Err(_) => return,
            };
            for entry in &ready[..count] {
                let number = entry.data();
                if number == STOP {
                    return;
                }
                let found = self.lock().events.get(&number).cloned();
                let (Some((id, event)), Some(interrupts)) = (found, &guest.interrupts) else {
                    continue;
                };
                interrupts.poll(&guest.sandbox, id, &event);
            }
        }
    }
}

impl Drop for IrqfdWatcher {
    fn drop(&mut self) {
        // A saturated eventfd is readable too.
        let _ = self.waiting.stop.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Takes an eventfd's count, if there is one. Does not wait, whatever its flags: others may read it.
pub fn drain(event: &EventFd) -> bool {
    let mut count = 0_u64;
    let buffer = libc::iovec {
        iov_base: (&raw mut count).cast(),
        iov_len: size_of_val(&count),
    };
    // SAFETY: one buffer, `count`, which outlives the call; the descriptor is open.
    let read = unsafe {
        libc::preadv2(
            event.as_raw_fd(),
            &raw const buffer,
            1,
            -1,
            libc::RWF_NOWAIT,
        )
    };
    read == 8
}
