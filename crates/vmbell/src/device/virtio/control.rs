//! What every transport has: the status, the choice of features and the description of queues (virtio 1.3, 2.1, 2.2 and
//! 3.1), on the thread of the vCPU that accesses them.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vm_memory::GuestMemoryMmap;

use super::refusal::Trouble;
use super::registers::{QueueRegisters, Registers};
use super::source::Source;
use super::{Handler, Interrupts, Queue, Refusal, features};
use crate::bus::{Backlog, Work};
use crate::virtqueue::{SetupError, SplitDevice, Status};

/// The most descriptors of a queue.
pub(super) const QUEUE_SIZE_MAX: u16 = 256;

/// How the queues are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// At each notification: by a thread that waits for an ioeventfd, or else by the vCPU that writes the register.
    Notified,
    /// By a thread that polls; the driver's notifications are disabled.
    Polled,
}

/// A device without a transport.
pub(super) struct Control<D> {
    memory: Arc<GuestMemoryMmap>,
    handler: Arc<D>,
    registers: Mutex<Registers>,
    queues: Vec<Arc<Queue<D>>>,
    interrupts: Arc<dyn Interrupts>,
    trouble: Arc<Trouble>,
    backlog: Backlog,
}

impl<D> fmt::Debug for Control<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("registers", &self.registers)
            .finish_non_exhaustive()
    }
}

impl<D: Handler + 'static> Control<D> {
    /// A device in the state after a reset, whose queues are in `memory`. In that state their size is `size`.
    pub(super) fn new(
        memory: &GuestMemoryMmap,
        handler: D,
        (queues, size): (u16, u16),
        serving: Serving,
        interrupts: Arc<dyn Interrupts>,
        backlog: Backlog,
    ) -> Self {
        let memory = Arc::new(memory.clone());
        let handler = Arc::new(handler);
        let trouble = Arc::default();
        let queue = |index| {
            let (memory, handler) = (Arc::clone(&memory), Arc::clone(&handler));
            let (interrupts, trouble) = (Arc::clone(&interrupts), Arc::clone(&trouble));
            let polled = serving == Serving::Polled;
            Arc::new(Queue::new(
                index, memory, handler, interrupts, polled, trouble,
            ))
        };
        Self {
            queues: (0..queues).map(queue).collect(),
            registers: Mutex::new(Registers::new(queues, size)),
            memory,
            handler,
            interrupts,
            trouble,
            backlog,
        }
    }

    /// The queue with this index, for the thread that serves it.
    pub(super) fn queue(&self, index: u16) -> Option<&Arc<Queue<D>>> {
        self.queues.get(usize::from(index))
    }

    /// Starts the thread that serves the queue whose chains wait for the host, if the device has one.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads.
    pub(super) fn start_source(&self) -> io::Result<Option<Source>> {
        let Some((index, readable)) = self.handler.source() else {
            return Ok(None);
        };
        let readable = readable.try_clone_to_owned()?;
        let start = |queue: &Arc<Queue<D>>| Source::start(readable, Arc::clone(queue));
        self.queue(index).map(start).transpose()
    }

    /// What the driver did wrong last; `None` if there was nothing since the last call.
    pub(super) fn take_refusal(&self) -> Option<Refusal> {
        self.trouble.take()
    }

    /// The registers. Nobody else accesses them while they are locked.
    pub(super) fn registers(&self) -> MutexGuard<'_, Registers> {
        self.registers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a notification on the calling vCPU's thread, which must not hold the registers.
    pub(super) fn notify(&self, index: u16) {
        if let Some(queue) = self.queue(index)
            && queue.serve().more
        {
            self.backlog.leave(Arc::clone(queue) as Arc<dyn Work>);
        }
    }

    /// Resets the device: no thread accesses a ring any more.
    pub(super) fn reset(&self, registers: &mut Registers) {
        for queue in &self.queues {
            queue.stop();
        }
        registers.reset();
        self.interrupts.reset();
        self.trouble.over();
    }

    /// The status that the driver reads, with DEVICE_NEEDS_RESET if the driver has broken a queue.
    pub(super) fn status(&self, registers: &Registers) -> Status {
        if self.trouble.needs_reset() && registers.status != Status::RESET {
            return registers.status.with(Status::NEEDS_RESET);
        }
        registers.status
    }

    /// Handles a write to the status.
    pub(super) fn set_status(&self, registers: &mut Registers, new: Status) {
        let old = registers.status;
        if new == Status::RESET {
            self.reset(registers);
            return;
        }
        // Only the device sets DEVICE_NEEDS_RESET.
        let new = Status(new.0 & !Status::NEEDS_RESET.0);
        if !new.has(old) {
            let (old, new) = (old.0, new.0);
            self.trouble.note(Refusal::StatusCleared { old, new });
            return;
        }
        let mut taken = new;
        if new.has(Status::FEATURES_OK) && !old.has(Status::FEATURES_OK) {
            let chosen = registers.driver_features;
            let offered = self.features();
            if features::accept(chosen, offered).is_none() {
                taken = Status(taken.0 & !Status::FEATURES_OK.0);
                self.trouble.note(Refusal::Features { chosen, offered });
            }
        }
        if new.has(Status::DRIVER_OK) && !old.has(Status::DRIVER_OK) {
            if taken.has(Status::FEATURES_OK) {
                self.go_live(registers);
            } else {
                taken = Status(taken.0 & !Status::DRIVER_OK.0);
                self.trouble.note(Refusal::DriverOkTooEarly);
            }
        }
        registers.status = taken;
    }

    fn go_live(&self, registers: &Registers) {
        self.handler.accepted(registers.driver_features);
        for (queue, of) in self.queues.iter().zip(&registers.queues) {
            if of.ready
                && let Some(Ok(device)) = self.resolve(registers, of)
            {
                queue.start(device);
            }
        }
    }

    /// The device side of a queue; `None` if the queue is too large.
    fn resolve(
        &self,
        registers: &Registers,
        queue: &QueueRegisters,
    ) -> Option<Result<SplitDevice<Arc<GuestMemoryMmap>>, SetupError>> {
        let features = features::accept(registers.driver_features, self.features())?;
        let layout = queue.layout(QUEUE_SIZE_MAX)?;
        Some(SplitDevice::new(&self.memory, &layout, features))
    }

    fn features(&self) -> u64 {
        features::OFFERED | self.handler.features()
    }

    /// Bytes of the configuration that only this type of device has.
    pub(super) fn config_len(&self) -> usize {
        self.handler.config().len()
    }

    /// Reads that configuration at any offset and width; what is behind its end reads as zeros.
    pub(super) fn read_config(&self, offset: u64, data: &mut [u8]) {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let config = self.handler.config().get(offset..).unwrap_or_default();
        data.fill(0);
        for (byte, config) in data.iter_mut().zip(config) {
            *byte = *config;
        }
    }

    /// The half of the device's features that the driver has selected.
    pub(super) fn offered(&self, registers: &Registers) -> u32 {
        features::half(self.features(), registers.device_features_sel)
    }

    /// Handles a write to the half of the driver's features that it has selected.
    pub(super) fn choose(&self, registers: &mut Registers, half: u32) {
        if !registers.status.has(Status::FEATURES_OK) {
            let (bits, selector) = (registers.driver_features, registers.driver_features_sel);
            registers.driver_features = features::with_half(bits, selector, half);
        }
    }

    /// Stops the selected queue.
    pub(super) fn disable_queue(&self, registers: &mut Registers) {
        if let Some((index, _)) = registers.selected() {
            self.queues[usize::from(index)].stop();
            registers.queues[usize::from(index)].ready = false;
        }
    }

    /// Makes the selected queue ready. One that cannot be set up does not become ready, which the driver sees when it
    /// reads the register.
    pub(super) fn enable_queue(&self, registers: &mut Registers) {
        let Some((index, queue)) = registers.selected() else {
            return;
        };
        let status = registers.status;
        if !status.has(Status::FEATURES_OK) || status.has(Status::DRIVER_OK) {
            let status = status.0;
            self.trouble.note(Refusal::ReadyOutOfTurn {
                queue: index,
                status,
            });
            return;
        }
        match self.resolve(registers, &queue) {
            Some(Ok(_)) => registers.queues[usize::from(index)].ready = true,
            Some(Err(source)) => self.trouble.note(Refusal::Setup {
                queue: index,
                source,
            }),
            None => self.trouble.note(Refusal::Size {
                queue: index,
                size: queue.size,
                most: QUEUE_SIZE_MAX,
            }),
        }
    }
}
