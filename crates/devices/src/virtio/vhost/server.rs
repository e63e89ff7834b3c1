//! The queues of a device that a worker serves.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryRegion};
use vmbell::eventfd::{EFD_NONBLOCK, EventFd, Signaller};
use vmbell::sync::{Mutex, MutexGuard};
use vmbell::thread::{EventLoop, EventSet, ThreadKind};
use vmbell_virtqueue::DeviceState;

use super::{Worker, WorkerFeatures};
use crate::snapshot::SnapshotError;
use crate::virtio::driver::DriverSide;
use crate::virtio::driver::Refusal;
use crate::virtio::ring::{QUEUE_SIZE_MAX, QueueRegisters, Ring};
use crate::virtio::server::{Server, ServerSnapshot};

/// The queues, and the worker that serves them.
pub(in crate::virtio) struct Vhost<W> {
    /// Waits for the worker: for its end, for an invalid queue, and for its calls for queues without an irqfd.
    thread: EventLoop,
    worker: Arc<W>,
    driver: DriverSide,
    kicks: Vec<Arc<EventFd>>,
    /// Signals the kicks. A worker in another process can fill these eventfds and make them blocking.
    signaller: &'static Signaller,
    /// Signalled by the worker when a queue is invalid; the thread then tells the driver.
    broken: EventFd,
    running: Arc<Mutex<Running>>,
}

#[derive(Default)]
struct Running {
    /// The queues that the worker serves. It can still signal after they are stopped; these signals are ignored.
    queues: Vec<usize>,
    /// The eventfds that the worker signals instead of an irqfd, for queues without one.
    relays: Vec<Option<EventFd>>,
}

fn lock(running: &Mutex<Running>) -> MutexGuard<'_, Running> {
    running.lock()
}

/// Creates an eventfd that the worker signals and the thread waits for. It is never read: each signal is an edge,
/// whatever flags the other process sets on the descriptor.
fn signal(thread: &EventLoop, mut heard: impl FnMut() + Send + 'static) -> io::Result<EventFd> {
    let event = EventFd::new(EFD_NONBLOCK)?;
    let edges = EventSet::IN | EventSet::EDGE_TRIGGERED;
    thread.add(event.try_clone()?, edges, move || {
        heard();
        false
    })?;
    Ok(event)
}

impl<W: Worker + 'static> Vhost<W> {
    /// Creates the queues, which are stopped.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads, or the kernel has no asynchronous I/O.
    pub(in crate::virtio) fn new(worker: W, driver: DriverSide) -> io::Result<Self> {
        let kick = |_| EventFd::new(EFD_NONBLOCK).map(Arc::new);
        let thread = EventLoop::new(ThreadKind::Device, W::NAME)?;
        let running = Arc::<Mutex<Running>>::default();
        let (theirs, of_theirs) = (driver.clone(), Arc::clone(&running));
        let broken = signal(&thread, move || {
            // Locked during the interrupt, so that no interrupt comes after a stop.
            let running = lock(&of_theirs);
            if !running.queues.is_empty() {
                theirs.trouble.note(Refusal::BrokenForWorker);
                theirs.interrupts.configuration();
            }
        })?;
        let worker = Arc::new(worker);
        watch_connection(&thread, &worker, &driver)?;
        Ok(Self {
            thread,
            kicks: (0..W::QUEUES).map(kick).collect::<io::Result<_>>()?,
            signaller: Signaller::of_process()?,
            worker,
            driver,
            broken,
            running,
        })
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        lock(&self.running)
    }

    /// Tells the worker where the guest's memory is.
    fn share_memory(&self) -> vhost::Result<()> {
        let memory = &self.driver.memory;
        let region = |region: &vm_memory::GuestRegionMmap| {
            let file = region.file_offset();
            VhostUserMemoryRegionInfo {
                guest_phys_addr: region.start_addr().0,
                memory_size: region.len(),
                userspace_addr: region.as_ptr().addr() as u64,
                mmap_offset: file.map_or(0, FileOffset::start),
                mmap_handle: file.map_or(-1, |file| file.file().as_raw_fd()),
            }
        };
        let regions: Vec<_> = memory.iter().map(region).collect();
        self.worker.backend().set_mem_table(&regions).map(drop)
    }

    /// Describes a queue to the worker.
    fn describe(
        &self,
        index: usize,
        size: u16,
        registers: &QueueRegisters,
        call: &EventFd,
    ) -> vhost::Result<()> {
        let backend = self.worker.backend();
        backend.set_vring_num(index, size)?;
        backend.set_vring_base(index, 0)?;
        let config = VringConfigData {
            queue_max_size: QUEUE_SIZE_MAX,
            queue_size: size,
            flags: 0,
            desc_table_addr: self.address(registers.descriptors)?,
            used_ring_addr: self.address(registers.device)?,
            avail_ring_addr: self.address(registers.driver)?,
            log_addr: None,
        };
        backend.set_vring_addr(index, &config)?;
        backend.set_vring_kick(index, &self.kicks[index])?;
        backend.set_vring_call(index, call)?;
        backend.set_vring_err(index, &self.broken)
    }

    fn set_stopped(&self, queues: &[usize]) -> vhost::Result<()> {
        self.worker
            .request(|| self.worker.set_running(queues, false))
    }

    /// The address of a ring in the form that the worker takes.
    fn address(&self, of_guest: u64) -> vhost::Result<u64> {
        if !W::HOST_ADDRESSES {
            return Ok(of_guest);
        }
        let found = self.driver.memory.get_host_address(GuestAddress(of_guest));
        let found = found.map_err(|_| vhost::Error::InvalidQueue)?;
        Ok(found.addr() as u64)
    }

    /// The eventfd that the worker signals for a queue: the irqfd of its vector, or otherwise one that the thread waits
    /// for.
    fn call(&self, index: u16, relays: &mut Vec<Option<EventFd>>) -> io::Result<EventFd> {
        let interrupts = &self.driver.interrupts;
        if let Some(irqfd) = interrupts.irqfd(index) {
            return irqfd.try_clone();
        }
        let place = usize::from(index);
        relays.resize_with(relays.len().max(place + 1), || None);
        let relay = match relays[place].take() {
            Some(relay) => relay,
            None => {
                let (interrupts, running) = (Arc::clone(interrupts), Arc::clone(&self.running));
                signal(&self.thread, move || {
                    let running = lock(&running);
                    if running.queues.contains(&place) {
                        interrupts.used_buffer(index);
                    }
                })?
            }
        };
        relays[place].insert(relay).try_clone()
    }
}

/// Lets the thread wait for the worker to go away, if the worker has a connection.
fn watch_connection<W: Worker + 'static>(
    thread: &EventLoop,
    worker: &Arc<W>,
    driver: &DriverSide,
) -> io::Result<()> {
    let Some(connection) = worker.connection() else {
        return Ok(());
    };
    let connection = connection.try_clone_to_owned()?;
    let (worker, driver) = (Arc::clone(worker), driver.clone());
    // The end of the connection is reported whichever side ends it: this one, at the time limit, or the worker.
    let mut told = false;
    let gone = move || {
        if std::mem::replace(&mut told, true) {
            return false;
        }
        driver.trouble.note(Refusal::WorkerGone);
        driver.interrupts.configuration();
        worker.gone();
        false
    };
    let edges = EventSet::READ_HANG_UP | EventSet::EDGE_TRIGGERED;
    thread.add(connection, edges, gone).map(drop)
}

/// Makes the refusal to save or restore the device.
const fn unsaved<W: Worker>() -> SnapshotError {
    SnapshotError::Unsaved {
        device: W::NAME,
        reason: "its queues are served by the kernel or another process",
    }
}

/// Makes the refusal for a failure of the worker.
fn failed(operation: &'static str) -> impl FnOnce(vhost::Error) -> Refusal {
    move |source| Refusal::Worker { operation, source }
}

impl<W: Worker> ServerSnapshot for Vhost<W> {
    fn pause(&self) -> Result<Vec<Option<DeviceState>>, SnapshotError> {
        Err(unsaved::<W>())
    }

    fn restore(&self, _: &[Option<&DeviceState>]) -> Result<(), SnapshotError> {
        Err(unsaved::<W>())
    }
}

impl<W: Worker + 'static> Server for Vhost<W> {
    /// The rules are the same as for our own queues, because the worker would take a ring anywhere in this process.
    fn check(&self, index: u16, registers: &QueueRegisters, features: u64) -> Result<(), Refusal> {
        Ring::new(&self.driver.memory, index, registers, features).map(drop)
    }

    fn start(&self, features: u64, queues: &[QueueRegisters]) -> Result<(), Refusal> {
        let mut running = self.running();
        let mut ready = Vec::new();
        for (index, registers) in (0..W::SERVED).zip(queues) {
            if registers.ready {
                ready.push((index, registers.checked_size(index)?, registers));
            }
        }
        let mut operation = "take the features";
        let started = self.worker.request(|| {
            self.worker.accepted(features)?;
            let WorkerFeatures { known, own, .. } = self.worker.features();
            let backend = self.worker.backend();
            backend.set_features(features & known | own)?;
            operation = "take the memory";
            self.share_memory()?;
            operation = "take a queue";
            for (index, size, registers) in &ready {
                let call = self.call(*index, &mut running.relays);
                let call = call.map_err(vhost::Error::IOError)?;
                self.describe(usize::from(*index), *size, registers, &call)?;
            }
            operation = "start";
            // Queues that started before another one failed are stopped at the reset.
            running.queues = ready
                .iter()
                .map(|(index, ..)| usize::from(*index))
                .collect();
            self.worker.set_running(&running.queues, true)
        });
        started.map_err(failed(operation))
    }

    fn stop(&self) {
        let mut running = self.running();
        let queues = std::mem::take(&mut running.queues);
        // Stopping queues that were started cannot fail in the kernel.
        if !queues.is_empty()
            && let Err(error) = self.set_stopped(&queues)
        {
            self.driver.trouble.note(failed("stop")(error));
        }
    }

    fn stop_queue(&self, index: u16) {
        let mut running = self.running();
        let index = usize::from(index);
        if running.queues.contains(&index) {
            running.queues.retain(|queue| *queue != index);
            if let Err(error) = self.set_stopped(&[index]) {
                self.driver.trouble.note(failed("stop")(error));
            }
        }
    }

    fn kick(&self, index: u16) -> Option<&Arc<EventFd>> {
        self.kicks.get(usize::from(index))
    }

    fn notify(&self, index: u16) {
        if let Some(kick) = self.kick(index) {
            self.signaller.signal(kick);
        }
    }
}
