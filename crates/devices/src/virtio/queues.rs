//! The queues of a device that a [`Handler`] of this process serves: on the vCPU's thread at each notification, on threads
//! that sleep until a doorbell rings, or on a thread that polls.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use vmbell::bus::{Backlog, Work};
use vmbell::eventfd::EventFd;
use vmbell::thread::{EventLoop, EventSet, ThreadKind};

use super::config::{Notify, VirtioConfig};
use super::control::QueueRegisters;
use super::features;
use super::notification::LastNotification;
use super::poller::Poller;
use super::queue::{Handler, Queue};
use super::refusal::{Refusal, catch};
use super::ring::Ring;
use super::server::{DeviceInfo, DriverSide, Server};
use crate::Listener;

/// How the queues are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// At each notification: by a thread that waits for an ioeventfd, otherwise by the vCPU that writes the register.
    Notified,
    /// By a thread that polls; the driver's notifications are disabled.
    Polled,
}

/// The queues of one device.
pub(super) struct Queues<D> {
    // The threads end before the queues that they serve.
    listeners: Vec<Listener>,
    poller: Option<Poller>,
    _sources: Option<EventLoop>,
    driver: DriverSide,
    handler: Arc<D>,
    device: DeviceInfo,
    each: Vec<Arc<Queue<D>>>,
    backlog: Backlog,
}

impl<D: Handler + 'static> Queues<D> {
    /// Makes the queues, which are stopped. The backlog is the machine's: it continues the service of a notification that
    /// exceeds the budget.
    pub(super) fn new(
        handler: D,
        queues: u16,
        serving: Serving,
        driver: DriverSide,
        backlog: Backlog,
    ) -> Self {
        let handler = Arc::new(handler);
        let queue = |index| {
            let polled = serving == Serving::Polled;
            Arc::new(Queue::new(index, &driver, Arc::clone(&handler), polled))
        };
        Self {
            listeners: Vec::new(),
            poller: None,
            _sources: None,
            each: (0..queues).map(queue).collect(),
            device: DeviceInfo {
                id: D::DEVICE_ID,
                name: D::NAME,
                queues,
                features: features::OF_RINGS | handler.features(),
                config: handler.config().into(),
            },
            driver,
            handler,
            backlog,
        }
    }

    /// The same with its own threads: one that serves what waits for the host, if the device has that, and by default one for each
    /// queue, which the queue's eventfd wakes. One that [polls](Notify::Poll) does the work of all, and an [exit](Notify::Exit) needs
    /// none for the queues.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads, or if the choices contradict each other.
    pub(super) fn with_threads(
        handler: D,
        queues: u16,
        config: VirtioConfig,
        driver: DriverSide,
        backlog: Backlog,
    ) -> io::Result<Self> {
        let config = config.of_handler()?;
        let mut queues = Self::new(handler, queues, Serving::Notified, driver, backlog);
        if config.packed {
            queues.device.features |= features::RING_PACKED;
        }
        if config.notification_data {
            queues.device.features |= features::NOTIFICATION_DATA;
        }
        if config.notify == Notify::Poll {
            let sources = queues.sources()?.into_iter();
            let sources = sources.map(|(_, readable)| readable).collect();
            queues.poller = Some(Poller::start(&queues.each, sources)?);
            return Ok(queues);
        }
        if config.notify == Notify::Doorbell {
            queues.listen()?;
        }
        queues.watch_sources()?;
        Ok(queues)
    }

    /// Starts a thread for each queue, which sleeps until the queue's eventfd is signalled.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads.
    fn listen(&mut self) -> io::Result<()> {
        let listener = |queue: &Arc<Queue<D>>| {
            let queue = Arc::clone(queue);
            // What a wake-up finds is in the queue, and the count says nothing more.
            if queue.is_awaited() {
                Listener::start(|| {}, move || queue.serve_before_sleep().more)
            } else {
                Listener::start_resting(|| {}, move || queue.serve_before_nap())
            }
        };
        self.listeners = self.each.iter().map(listener).collect::<io::Result<_>>()?;
        Ok(())
    }

    /// Starts the thread that serves the queues whose chains wait for the host, if the device has some.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads.
    fn watch_sources(&mut self) -> io::Result<()> {
        let sources = self.sources()?;
        if sources.is_empty() {
            return Ok(());
        }
        let thread = EventLoop::new(ThreadKind::Device, D::NAME)?;
        for (index, readable) in sources {
            if let Some(queue) = self.queue(index).map(Arc::clone) {
                // A descriptor that stays readable wakes the thread once: what the ring has no room for now is served when the
                // driver notifies.
                let edges = EventSet::IN | EventSet::EDGE_TRIGGERED;
                thread.add(readable, edges, move || queue.serve().more)?;
            }
        }
        self._sources = Some(thread);
        Ok(())
    }

    /// The queues whose chains wait for the host, each with what becomes readable then.
    fn sources(&self) -> io::Result<Vec<(u16, OwnedFd)>> {
        let sources = self.handler.sources().into_iter();
        let owned =
            |(index, readable): (u16, BorrowedFd<'_>)| Ok((index, readable.try_clone_to_owned()?));
        sources.map(owned).collect()
    }

    /// The queues by their indices.
    pub(super) fn each(&self) -> &[Arc<Queue<D>>] {
        &self.each
    }

    /// The queue with this index.
    pub(super) fn queue(&self, index: u16) -> Option<&Arc<Queue<D>>> {
        self.each.get(usize::from(index))
    }
}

impl<D: Handler + 'static> Server for Queues<D> {
    fn device(&self) -> &DeviceInfo {
        &self.device
    }

    fn check(&self, index: u16, registers: &QueueRegisters, features: u64) -> Result<(), Refusal> {
        Ring::new(&self.driver.memory, index, registers, features).map(drop)
    }

    fn start(&self, features: u64, queues: &[QueueRegisters]) -> Result<(), Refusal> {
        catch(|| self.handler.accepted(features))?;
        for (queue, registers) in self.each.iter().zip(queues) {
            if registers.ready {
                let (memory, index) = (&self.driver.memory, queue.index());
                let ring = Ring::new(memory, index, registers, features)?;
                queue.start(ring, features::of_ring(features).in_order);
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
}
