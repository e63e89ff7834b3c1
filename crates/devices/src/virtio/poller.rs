//! A thread that serves all queues of a device ([`Notify::Poll`](super::Notify)). It sleeps until a queue is notified or the host has
//! something for the device. Then it polls all queues, and sleeps again after a while without work. While it polls, drivers need not
//! notify, and the host's side wakes no other thread.
//!
//! It yields the CPU between two looks: with one CPU, the guest and the host's programs need it to make progress.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use vmbell::eventfd::{EFD_NONBLOCK, EventFd};
use vmbell::sync::Mutex;
use vmbell::thread::{EventLoop, EventSet, ThreadKind};

use super::queue::Queue;

/// How long the thread looks at rings that have nothing more: the most that KVM polls for a halted vCPU by default
/// (`halt_poll_ns`).
const POLL: Duration = Duration::from_micros(200);
/// How many looks the thread makes before it checks whether it must end.
const LOOKS: u32 = 64;

/// The thread of a device, until this is dropped.
pub(super) struct Poller {
    /// The eventfd of each queue.
    kicks: Vec<Arc<EventFd>>,
    _thread: EventLoop,
}

impl Poller {
    /// Starts the thread of this name, which also serves the queues when one of the `sources` becomes readable.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads.
    pub(super) fn start(
        name: &'static str,
        queues: &[Arc<Queue>],
        sources: Vec<OwnedFd>,
    ) -> io::Result<Self> {
        let thread = EventLoop::new(ThreadKind::Device, name)?;
        let looks = Arc::new(Mutex::new(Looks {
            queues: queues.to_vec(),
            last: None,
        }));
        let look = || {
            let looks = Arc::clone(&looks);
            move || looks.lock().run()
        };
        let mut kicks = Vec::new();
        for _ in queues {
            let kick = Arc::new(EventFd::new(EFD_NONBLOCK)?);
            let (theirs, look) = (Arc::clone(&kick), look());
            thread.add(kick.try_clone()?, EventSet::IN, move || {
                // It does not block, and is empty if this is called again because there was more to do.
                let _ = theirs.read();
                look()
            })?;
            kicks.push(kick);
        }
        for source in sources {
            // What the rings have no room for now is served when the driver notifies.
            thread.add(source, EventSet::IN | EventSet::EDGE_TRIGGERED, look())?;
        }
        Ok(Self {
            kicks,
            _thread: thread,
        })
    }

    /// The eventfd of a queue.
    pub(super) fn kick(&self, index: u16) -> Option<&Arc<EventFd>> {
        self.kicks.get(usize::from(index))
    }

    /// Notifies a queue.
    pub(super) fn wake(&self, index: u16) {
        // It fails if the guest has filled the eventfd, which then wakes the thread anyway.
        let _ = self.kick(index).map(|kick| kick.write(1));
    }
}

/// The queues, and what was found in them.
struct Looks {
    queues: Vec<Arc<Queue>>,
    /// When a look last found a chain since the thread slept.
    last: Option<Instant>,
}

impl Looks {
    /// Serves the queues; false if the thread sleeps now, and the driver notifies.
    fn run(&mut self) -> bool {
        for _ in 0..LOOKS {
            let found = self.look();
            if found {
                self.last = Some(Instant::now());
            } else if self.last.is_none_or(|last| last.elapsed() >= POLL) {
                self.last = None;
                return self.before_sleep();
            }
            thread::yield_now();
        }
        true
    }

    /// Looks at each queue; true if one had a chain.
    fn look(&self) -> bool {
        let mut found = false;
        // The sending queue of a network interface comes before the receiving one, which may have the answer already.
        for queue in self.queues.iter().rev() {
            let served = queue.serve_before_poll();
            found |= served.more || served.chains > 0;
        }
        found
    }

    /// Lets the driver notify, and looks at each queue once more; true if there may be more chains.
    fn before_sleep(&self) -> bool {
        let mut more = false;
        for queue in &self.queues {
            more |= queue.serve_before_sleep().more;
        }
        more
    }
}
