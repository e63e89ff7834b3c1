//! The registers as a device of the bus (virtio 1.3, 4.2.2), on the thread of the vCPU that accesses them.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vm_memory::GuestMemoryMmap;

use super::features;
use super::refusal::Trouble;
use super::registers::{QueueRegisters, Registers, set_half};
use super::{Handler, Interrupt, Queue, Refusal, register};
use crate::bus::{Backlog, BusDevice, Work};
use crate::virtqueue::{SplitDevice, Status};

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

/// A virtio device with MMIO registers.
pub struct VirtioMmio<D> {
    memory: Arc<GuestMemoryMmap>,
    registers: Mutex<Registers>,
    queues: Vec<Arc<Queue<D>>>,
    interrupt: Arc<Interrupt>,
    trouble: Arc<Trouble>,
    backlog: Backlog,
}

impl<D> fmt::Debug for VirtioMmio<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtioMmio")
            .field("registers", &self.registers)
            .finish_non_exhaustive()
    }
}

impl<D: Handler + 'static> VirtioMmio<D> {
    /// A device in the state after a reset, whose queues are in `memory`.
    ///
    /// `backlog` is the machine's: it continues the service of a notification that exceeds the budget.
    pub fn new(
        memory: &GuestMemoryMmap,
        handler: D,
        queues: u16,
        serving: Serving,
        interrupt: Interrupt,
        backlog: Backlog,
    ) -> Self {
        let memory = Arc::new(memory.clone());
        let (handler, interrupt) = (Arc::new(handler), Arc::new(interrupt));
        let trouble = Arc::default();
        let queue = |index| {
            let (memory, handler) = (Arc::clone(&memory), Arc::clone(&handler));
            let (interrupt, trouble) = (Arc::clone(&interrupt), Arc::clone(&trouble));
            let polled = serving == Serving::Polled;
            Arc::new(Queue::new(
                index, memory, handler, interrupt, polled, trouble,
            ))
        };
        Self {
            queues: (0..queues).map(queue).collect(),
            registers: Mutex::new(Registers::new(queues)),
            memory,
            interrupt,
            trouble,
            backlog,
        }
    }

    /// The queue with this index, for the thread that serves it.
    pub fn queue(&self, index: u16) -> Option<Arc<Queue<D>>> {
        self.queues.get(usize::from(index)).cloned()
    }

    /// Takes the last refusal; `None` if there was none since the last call.
    pub fn take_refusal(&self) -> Option<Refusal> {
        self.trouble.take()
    }

    fn reset(&self, registers: &mut Registers) {
        for queue in &self.queues {
            queue.stop();
        }
        registers.reset();
        self.interrupt.reset();
        self.trouble.over();
    }

    /// The status that the driver reads, with DEVICE_NEEDS_RESET if the driver has broken a queue.
    fn status(&self, registers: &Registers) -> Status {
        if self.trouble.needs_reset() && registers.status != Status::RESET {
            return registers.status.with(Status::NEEDS_RESET);
        }
        registers.status
    }

    fn set_status(&self, registers: &mut Registers, new: Status) {
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
            if features::accept(chosen).is_none() {
                taken = Status(taken.0 & !Status::FEATURES_OK.0);
                let offered = features::OFFERED;
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
    ) -> Option<Result<SplitDevice<Arc<GuestMemoryMmap>>, crate::virtqueue::SetupError>> {
        let features = features::accept(registers.driver_features)?;
        let layout = queue.layout(QUEUE_SIZE_MAX)?;
        Some(SplitDevice::new(&self.memory, &layout, features))
    }

    /// Handles a write to QueueReady. A queue that cannot be set up does not become ready, which the driver sees when
    /// it reads the register.
    fn set_ready(&self, registers: &mut Registers, ready: bool) {
        let Some((index, queue)) = registers.selected() else {
            return;
        };
        if !ready {
            self.queues[usize::from(index)].stop();
            registers.queues[usize::from(index)].ready = false;
            return;
        }
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

    fn get(&self, offset: u64) -> u32 {
        let registers = lock(&self.registers);
        let selected = registers.selected();
        match offset {
            register::MAGIC_VALUE => register::MAGIC,
            register::VERSION => 2,
            register::DEVICE_ID => D::DEVICE_ID,
            register::VENDOR_ID => u32::from_le_bytes(*b"bell"),
            register::DEVICE_FEATURES => {
                features::half(features::OFFERED, registers.device_features_sel)
            }
            register::QUEUE_SIZE_MAX => selected.map_or(0, |_| QUEUE_SIZE_MAX.into()),
            register::QUEUE_READY => selected.map_or(0, |(_, queue)| queue.ready.into()),
            register::INTERRUPT_STATUS => self.interrupt.reasons(),
            register::STATUS => self.status(&registers).0.into(),
            offset if register::SHM.contains(&offset) => u32::MAX,
            _ => 0,
        }
    }

    fn set(&self, offset: u64, value: u32) {
        if offset == register::QUEUE_NOTIFY {
            // Without the registers' lock: this serves the queue.
            let index = usize::try_from(value).unwrap_or(usize::MAX);
            if let Some(queue) = self.queues.get(index)
                && queue.serve().more
            {
                self.backlog.leave(Arc::clone(queue) as Arc<dyn Work>);
            }
            return;
        }
        let mut registers = lock(&self.registers);
        match offset {
            register::DEVICE_FEATURES_SEL => registers.device_features_sel = value,
            register::DRIVER_FEATURES_SEL => registers.driver_features_sel = value,
            register::DRIVER_FEATURES if !registers.status.has(Status::FEATURES_OK) => {
                let (bits, selector) = (registers.driver_features, registers.driver_features_sel);
                registers.driver_features = features::with_half(bits, selector, value);
            }
            register::QUEUE_SEL => registers.queue_sel = value,
            register::QUEUE_READY => self.set_ready(&mut registers, value & 1 != 0),
            register::INTERRUPT_ACK => self.interrupt.acknowledge(value),
            #[expect(clippy::cast_possible_truncation, reason = "the field is 8 bits")]
            register::STATUS => self.set_status(&mut registers, Status(value as u8)),
            _ => {
                if let Some(queue) = registers.selected_mut() {
                    set_queue(queue, offset, value);
                }
            }
        }
    }
}

/// Writes a register that describes a queue.
fn set_queue(queue: &mut QueueRegisters, offset: u64, value: u32) {
    if offset == register::QUEUE_SIZE {
        queue.size = value;
        return;
    }
    let half = |registers: [u64; 2]| registers.iter().position(|register| *register == offset);
    if let Some(half) = half(register::QUEUE_DESC) {
        set_half(&mut queue.descriptors, half, value);
    } else if let Some(half) = half(register::QUEUE_DRIVER) {
        set_half(&mut queue.driver, half, value);
    } else if let Some(half) = half(register::QUEUE_DEVICE) {
        set_half(&mut queue.device, half, value);
    }
}

/// Registers are accessed with aligned 32-bit accesses; any other access is a mistake of the driver (virtio 1.3,
/// 4.2.2.2) and has no effect.
impl<D: Handler + 'static> BusDevice for VirtioMmio<D> {
    fn read(&self, offset: u64, data: &mut [u8]) {
        match <&mut [u8; 4]>::try_from(&mut *data) {
            Ok(data) if offset.is_multiple_of(4) => *data = self.get(offset).to_le_bytes(),
            _ => data.fill(0),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        if let Ok(data) = <[u8; 4]>::try_from(data)
            && offset.is_multiple_of(4)
        {
            self.set(offset, u32::from_le_bytes(data));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
