//! The queues of a device that a [`Handler`](super::Handler) of this process serves: on the vCPU's thread at each notification,
//! on threads that sleep until a doorbell rings, or on a thread that polls.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use vmbell::bus::{Backlog, Work};
use vmbell::eventfd::EventFd;
use vmbell::thread::{EventLoop, EventSet, ThreadKind};

use super::config::Notify;
use super::driver_side::DriverSide;
use super::features;
use super::notification::LastNotification;
use super::poller::Poller;
use super::queue::{AnyHandler, Queue};
use super::refusal::{Refusal, catch};
use super::ring::{QueueRegisters, Ring};
use super::server::Server;
use crate::listener::Listener;

/// The queues of one device.
pub(super) struct Queues {
    // The threads end before the queues that they serve.
    listeners: Vec<Listener>,
    poller: Option<Poller>,
    _sources: Option<EventLoop>,
    driver: DriverSide,
    handler: Arc<dyn AnyHandler>,
    each: Vec<Arc<Queue>>,
    backlog: Backlog,
}

impl Queues {
    /// The queues, which are stopped, with the threads that serve them: one that serves what waits for the host, if the device
    /// has that, and by default one for each queue, which the queue's eventfd wakes. One that [polls](Notify::Poll) does the
    /// work of all. `name` is that of the device. The backlog is the machine's: it continues the service of a notification that
    /// exceeds the budget.
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
                queues.listen()?;
                queues.watch_sources(name)?;
            }
            Notify::Exit => queues.watch_sources(name)?,
            Notify::Never => {}
        }
        Ok(queues)
    }

    /// Starts a thread for each queue, which sleeps until the queue's eventfd is signalled.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads.
    fn listen(&mut self) -> io::Result<()> {
        let listener = |queue: &Arc<Queue>| {
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
    fn watch_sources(&mut self, name: &'static str) -> io::Result<()> {
        let sources = self.sources()?;
        if sources.is_empty() {
            return Ok(());
        }
        let thread = EventLoop::new(ThreadKind::Device, name)?;
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

    /// The queue with this index.
    fn queue(&self, index: u16) -> Option<&Arc<Queue>> {
        self.each.get(usize::from(index))
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

    fn queues(&self) -> &[Arc<Queue>] {
        &self.each
    }
}
