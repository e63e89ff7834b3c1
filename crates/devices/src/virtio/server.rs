//! Serves the queues of a device while its driver runs: with a [`Handler`](super::Handler) on threads of this process
//! ([`Queues`]), or with a worker in the kernel or in another process ([`vhost`](super::vhost)). A transport starts and
//! stops both in the same way, on the vCPUs' threads.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use vmbell::bus::{Backlog, Work};
use vmbell::eventfd::{EFD_NONBLOCK, EventFd};
use vmbell::sync::Mutex;
use vmbell::thread::{EventLoop, EventSet, ThreadKind};
use vmbell_virtqueue::{DeviceState, Features};

use super::config::Notify;
use super::driver::{DriverSide, Refusal};
use super::live_ring::{InFlight, catch};
use super::queue::{AnyHandler, Queue};
use super::ring::{LastNotification, QueueRegisters, Ring};
use crate::listener::Listener;
use crate::snapshot::SnapshotError;

/// The fixed properties of a device.
#[derive(Debug)]
pub(super) struct DeviceInfo {
    /// The device ID (virtio 1.3, 5).
    pub(super) id: u32,
    /// The device's name, for messages.
    pub(super) name: &'static str,
    /// How many queues the device has.
    pub(super) queues: u16,
    /// All offered features, including those of the rings.
    pub(super) features: u64,
    /// The configuration that only this type of device has.
    pub(super) config: Box<[u8]>,
}

/// Saves and restores the positions in the rings of one device, while no vCPU runs.
pub(super) trait ServerSnapshot {
    /// Pauses all queues until [`resume`](Self::resume), and returns the states of their rings; `None` for a queue that
    /// is not started. Fails if the device cannot be saved, or a request stays in flight.
    fn pause(&self) -> Result<Vec<Option<DeviceState>>, SnapshotError>;

    /// Sets the states of the queues, which were started during this pause.
    fn restore(&self, rings: &[Option<&DeviceState>]) -> Result<(), SnapshotError>;

    /// Ends a pause. The caller notifies the queues afterwards.
    fn resume(&self) {}
}

/// Serves the queues of one device.
pub(super) trait Server: ServerSnapshot + Send + Sync {
    /// Fails if a queue cannot be served with these features. They were accepted.
    fn check(&self, index: u16, registers: &QueueRegisters, features: u64) -> Result<(), Refusal>;

    /// Starts to serve the queues that are ready. They have been [checked](Self::check).
    fn start(&self, features: u64, queues: &[QueueRegisters]) -> Result<(), Refusal>;

    /// Stops all queues: after the return, no thread accesses a ring.
    fn stop(&self);

    /// Stops one queue.
    fn stop_queue(&self, index: u16);

    /// The eventfd whose signal notifies a queue; `None` if a notification has to be a [call](Self::notify).
    fn kick(&self, index: u16) -> Option<&Arc<EventFd>>;

    /// The place for the doorbell that stores what the driver says with its notifications; `None` for a server that
    /// does not offer `VIRTIO_F_NOTIFICATION_DATA`.
    fn notification(&self, _index: u16) -> Option<&LastNotification> {
        None
    }

    /// Handles a notification on the calling vCPU's thread, which must not hold the registers.
    fn notify(&self, index: u16);

    /// The queues that a thread of the VMM may serve; none if another process or the kernel serves them.
    fn queues(&self) -> &[Arc<Queue>] {
        &[]
    }
}

/// The queues of a device with a handler. They are served on the vCPU's thread at each notification, on threads that
/// sleep until a doorbell rings, or on a thread that polls.
pub(super) struct Queues {
    // The threads end before the queues that they serve.
    listeners: Vec<Listener>,
    poller: Option<Poller>,
    _sources: Option<EventLoop>,
    name: &'static str,
    driver: DriverSide,
    handler: Arc<dyn AnyHandler>,
    each: Vec<Arc<Queue>>,
    backlog: Backlog,
}

impl Queues {
    /// Creates the queues, stopped, and the threads that serve them. By default, each queue has a thread that the
    /// queue's eventfd wakes, and one more thread serves chains that wait for the host, if the device has such queues.
    /// With [`Notify::Poll`], one thread does all of this. `name` is the device's name. The machine's `backlog`
    /// continues the service of a notification that exceeds the budget.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads.
    pub(super) fn new(
        name: &'static str,
        handler: Arc<dyn AnyHandler>,
        queues: u16,
        notify: Notify,
        driver: DriverSide,
        backlog: Backlog,
    ) -> io::Result<Self> {
        let is_polled = notify == Notify::Never;
        let queue = |index| {
            let handler = Arc::clone(&handler);
            Arc::new(Queue::new(index, &driver, handler, is_polled))
        };
        let mut queues = Self {
            listeners: Vec::new(),
            poller: None,
            _sources: None,
            name,
            each: (0..queues).map(queue).collect(),
            driver,
            handler,
            backlog,
        };
        match notify {
            Notify::Poll => {
                let sources = queues.sources()?.into_iter();
                let sources = sources.map(|(_, readable)| readable).collect();
                queues.poller = Some(Poller::start(name, &queues.each, sources)?);
            }
            Notify::Doorbell => {
                queues.listeners = queues
                    .each
                    .iter()
                    .map(Queue::listen)
                    .collect::<io::Result<_>>()?;
                queues.watch_sources(name)?;
            }
            Notify::Exit => queues.watch_sources(name)?,
            Notify::Never => {}
        }
        Ok(queues)
    }

    /// Starts the thread that serves the queues whose chains wait for the host, if the device has such queues.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads.
    fn watch_sources(&mut self, name: &'static str) -> io::Result<()> {
        let sources = self.sources()?;
        if sources.is_empty() {
            return Ok(());
        }
        let thread = EventLoop::new(ThreadKind::Device, name)?;
        for (index, readable) in sources {
            if let Some(queue) = self.queue(index).map(Arc::clone) {
                // A descriptor that stays readable wakes the thread once: data that the ring has no room for now is
                // served when the driver notifies.
                let edges = EventSet::IN | EventSet::EDGE_TRIGGERED;
                thread.add(readable, edges, move || queue.serve().more)?;
            }
        }
        self._sources = Some(thread);
        Ok(())
    }

    /// The queues whose chains wait for the host, each with the descriptor that is readable when the host is ready.
    fn sources(&self) -> io::Result<Vec<(u16, OwnedFd)>> {
        let sources = self.handler.sources().into_iter();
        let owned =
            |(index, readable): (u16, BorrowedFd<'_>)| Ok((index, readable.try_clone_to_owned()?));
        sources.map(owned).collect()
    }

    /// The queue with this index.
    fn queue(&self, index: u16) -> Option<&Arc<Queue>> {
        self.each.get(usize::from(index))
    }
}

impl ServerSnapshot for Queues {
    fn pause(&self) -> Result<Vec<Option<DeviceState>>, SnapshotError> {
        let device = self.name;
        if !self.handler.is_stateless() {
            let reason = "its state on the host is not part of a snapshot";
            return Err(SnapshotError::Unsaved { device, reason });
        }
        let pause = |queue: &Arc<Queue>| {
            let paused = queue.pause();
            let queue = queue.index();
            paused.map_err(|InFlight| SnapshotError::InFlight { device, queue })
        };
        self.each.iter().map(pause).collect()
    }

    fn restore(&self, rings: &[Option<&DeviceState>]) -> Result<(), SnapshotError> {
        for (queue, state) in self.each.iter().zip(rings) {
            if let Some(state) = state {
                queue.restore(state).map_err(|source| SnapshotError::Ring {
                    device: self.name,
                    queue: queue.index(),
                    source,
                })?;
            }
        }
        Ok(())
    }

    fn resume(&self) {
        self.each.iter().for_each(|queue| queue.resume());
    }
}

impl Server for Queues {
    fn check(&self, index: u16, registers: &QueueRegisters, features: u64) -> Result<(), Refusal> {
        Ring::new(&self.driver.memory, index, registers, features).map(drop)
    }

    fn start(&self, features: u64, queues: &[QueueRegisters]) -> Result<(), Refusal> {
        catch(|| self.handler.accepted(features))?;
        for (queue, registers) in self.each.iter().zip(queues) {
            if registers.ready {
                let (memory, index) = (&self.driver.memory, queue.index());
                let ring = Ring::new(memory, index, registers, features)?;
                queue.start(ring, Features::from_bits(features).in_order);
            }
        }
        Ok(())
    }

    fn stop(&self) {
        for queue in &self.each {
            queue.stop();
        }
    }

    fn stop_queue(&self, index: u16) {
        if let Some(queue) = self.queue(index) {
            queue.stop();
        }
    }

    fn kick(&self, index: u16) -> Option<&Arc<EventFd>> {
        match &self.poller {
            Some(poller) => poller.kick(index),
            None => self.listeners.get(usize::from(index)).map(Listener::event),
        }
    }

    fn notification(&self, index: u16) -> Option<&LastNotification> {
        self.queue(index).map(|queue| queue.notification())
    }

    fn notify(&self, index: u16) {
        if let Some(listener) = self.listeners.get(usize::from(index)) {
            listener.signal();
        } else if let Some(poller) = &self.poller {
            poller.wake(index);
        } else if let Some(queue) = self.queue(index)
            && queue.serve().more
        {
            self.backlog.leave(Arc::clone(queue) as Arc<dyn Work>);
        }
    }

    fn queues(&self) -> &[Arc<Queue>] {
        &self.each
    }
}

/// How long the thread polls rings that have nothing more: as long as KVM, by default, polls at most for a halted vCPU
/// (`halt_poll_ns`).
const POLL: Duration = Duration::from_micros(200);
/// How many looks the thread makes before it checks whether it must end.
const LOOKS: u32 = 64;

/// The thread that serves all queues of a device, until the poller is dropped ([`Notify::Poll`]). It sleeps until a
/// queue is notified or the host has data for the device. Then it polls all queues, and sleeps again after a while
/// without work. While it polls, drivers need not notify, and the host's side wakes no other thread.
///
/// It yields the CPU between two looks, because with one CPU, the guest and the host's programs need it.
struct Poller {
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
    fn start(name: &'static str, queues: &[Arc<Queue>], sources: Vec<OwnedFd>) -> io::Result<Self> {
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
                // The read does not block. The eventfd is empty if the callback is called again because there was more
                // to do.
                let _ = theirs.read();
                look()
            })?;
            kicks.push(kick);
        }
        for source in sources {
            // Data that the rings have no room for now is served when the driver notifies.
            thread.add(source, EventSet::IN | EventSet::EDGE_TRIGGERED, look())?;
        }
        Ok(Self {
            kicks,
            _thread: thread,
        })
    }

    /// The eventfd of a queue.
    fn kick(&self, index: u16) -> Option<&Arc<EventFd>> {
        self.kicks.get(usize::from(index))
    }

    /// Notifies a queue.
    fn wake(&self, index: u16) {
        // The write fails if the guest has filled the eventfd's count, and a full count wakes the thread anyway.
        let _ = self.kick(index).map(|kick| kick.write(1));
    }
}

/// The queues, and when a chain was last found in them.
struct Looks {
    queues: Vec<Arc<Queue>>,
    /// When a chain was last found; `None` if none was found since the thread last slept.
    last: Option<Instant>,
}

impl Looks {
    /// Serves the queues. Returns false if the thread sleeps now, until the driver notifies.
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

    /// Looks at each queue; returns whether one had a chain.
    fn look(&self) -> bool {
        let mut found = false;
        // The send queue of a network interface is served before the receive queue, which may already have the answer.
        for queue in self.queues.iter().rev() {
            let served = queue.serve_before_poll();
            found |= served.more || served.chains > 0;
        }
        found
    }

    /// Lets the driver notify, and looks at each queue once more; returns whether there may be more chains.
    fn before_sleep(&self) -> bool {
        let mut more = false;
        for queue in &self.queues {
            more |= queue.serve_before_sleep().more;
        }
        more
    }
}
