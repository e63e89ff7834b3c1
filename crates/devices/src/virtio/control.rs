//! What every transport has: the status, the choice of features and the description of queues (virtio 1.3, 2.1, 2.2 and
//! 3.1), on the thread of the vCPU that accesses them. The values that the driver has written are pure state, without
//! guest memory and threads.

use std::sync::Arc;
use std::{fmt, io};

use vm_memory::GuestMemoryMmap;
use vmbell::bus::Backlog;
use vmbell::sync::{Mutex, MutexGuard};
use vmbell_virtqueue::Status;

use super::device::VirtioDevice;
use super::driver_side::{DriverSide, Interrupts, Trouble};
use super::features;
use super::refusal::Refusal;
use super::ring::QueueRegisters;
use super::server::{DeviceInfo, Server};

/// A device without a transport.
pub(super) struct Control {
    device: DeviceInfo,
    server: Arc<dyn Server>,
    registers: Mutex<DriverRegisters>,
    interrupts: Arc<dyn Interrupts>,
    trouble: Arc<Trouble>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("registers", &self.registers)
            .finish_non_exhaustive()
    }
}

impl Control {
    /// A device in the state after a reset, in which the size of its queues is `size`.
    ///
    /// # Errors
    ///
    /// The process cannot have more descriptors or threads, or the choices of the device contradict each other.
    pub(super) fn new(
        device: VirtioDevice,
        memory: GuestMemoryMmap,
        interrupts: Arc<dyn Interrupts>,
        backlog: Backlog,
        size: u16,
    ) -> io::Result<Self> {
        let trouble = Arc::<Trouble>::default();
        let driver = DriverSide {
            memory: Arc::new(memory),
            interrupts: Arc::clone(&interrupts),
            trouble: Arc::clone(&trouble),
        };
        let (device, server) = device.connect(driver, backlog)?;
        Ok(Self {
            registers: Mutex::new(DriverRegisters::new(device.queues, size)),
            device,
            server,
            interrupts,
            trouble,
        })
    }

    /// What the device is.
    pub(super) const fn device(&self) -> &DeviceInfo {
        &self.device
    }

    /// What serves the queues.
    pub(super) fn server(&self) -> &Arc<dyn Server> {
        &self.server
    }

    /// What the driver did wrong last; `None` if there was nothing since the last call.
    pub(super) fn take_refusal(&self) -> Option<Refusal> {
        self.trouble.take()
    }

    /// The registers. No other thread accesses them while they are locked.
    pub(super) fn registers(&self) -> MutexGuard<'_, DriverRegisters> {
        self.registers.lock()
    }

    /// Resets the device: no thread accesses a ring any more.
    pub(super) fn reset(&self, registers: &mut DriverRegisters) {
        self.server.stop();
        registers.reset();
        self.interrupts.reset();
        self.trouble.over();
    }

    /// The status that the driver reads, with DEVICE_NEEDS_RESET if the driver has broken a queue.
    pub(super) fn status(&self, registers: &DriverRegisters) -> Status {
        if self.trouble.needs_reset() && registers.status != Status::RESET {
            return registers.status.with(Status::NEEDS_RESET);
        }
        registers.status
    }

    /// Handles a write to the status.
    pub(super) fn set_status(&self, registers: &mut DriverRegisters, new: Status) {
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
            let offered = self.device.features;
            if !features::accepts(chosen, offered) {
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

    fn go_live(&self, registers: &DriverRegisters) {
        let started = self
            .server
            .start(registers.driver_features, &registers.queues);
        if let Err(refusal) = started {
            self.trouble.note(refusal);
            self.interrupts.configuration();
        }
    }

    /// Reads the configuration that only this type of device has, at any offset and width; bytes after its end read as zeros.
    pub(super) fn read_config(&self, offset: u64, data: &mut [u8]) {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let config = &self.device.config;
        let config = config.get(offset..).unwrap_or_default();
        data.fill(0);
        for (byte, config) in data.iter_mut().zip(config) {
            *byte = *config;
        }
    }

    /// The half of the device's features that the driver has selected.
    pub(super) fn offered(&self, registers: &DriverRegisters) -> u32 {
        let offered = self.device.features;
        features::half(offered, registers.device_features_sel)
    }

    /// Handles a write to the half of the driver's features that it has selected.
    pub(super) fn choose(&self, registers: &mut DriverRegisters, half: u32) {
        if !registers.status.has(Status::FEATURES_OK) {
            let (bits, selector) = (registers.driver_features, registers.driver_features_sel);
            registers.driver_features = features::with_half(bits, selector, half);
        }
    }

    /// Stops the selected queue.
    pub(super) fn disable_queue(&self, registers: &mut DriverRegisters) {
        if let Some((index, _)) = registers.selected() {
            self.server.stop_queue(index);
            registers.queues[usize::from(index)].ready = false;
        }
    }

    /// Makes the selected queue ready. One that cannot be set up does not become ready, which the driver sees when it
    /// reads the register.
    pub(super) fn enable_queue(&self, registers: &mut DriverRegisters) {
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
        let features = registers.driver_features;
        match self.server.check(index, &queue, features) {
            Ok(()) => registers.queues[usize::from(index)].ready = true,
            Err(refusal) => self.trouble.note(refusal),
        }
    }
}

/// The registers of the device. After a reset all are zero, except for the sizes of queues on some transports.
#[derive(Clone, Debug, Default)]
pub(super) struct DriverRegisters {
    pub(super) status: Status,
    pub(super) device_features_sel: u32,
    pub(super) driver_features_sel: u32,
    pub(super) driver_features: u64,
    pub(super) queue_sel: u32,
    pub(super) queues: Vec<QueueRegisters>,
    /// The size of each queue after a reset.
    size: u16,
}

impl DriverRegisters {
    pub(super) fn new(queues: u16, size: u16) -> Self {
        let queue = QueueRegisters {
            size: size.into(),
            ..QueueRegisters::default()
        };
        Self {
            queues: vec![queue; usize::from(queues)],
            size,
            ..Self::default()
        }
    }

    /// Sets all registers to what they were at first.
    pub(super) fn reset(&mut self) {
        let queues = u16::try_from(self.queues.len()).unwrap_or(u16::MAX);
        *self = Self::new(queues, self.size);
    }

    /// The queue that is selected, if there is one.
    pub(super) fn selected(&self) -> Option<(u16, QueueRegisters)> {
        let index = u16::try_from(self.queue_sel).ok()?;
        let queue = self.queues.get(usize::from(index))?;
        Some((index, *queue))
    }

    /// The selected queue for writing; `None` while it is ready, as a ring must not move while the device uses it.
    pub(super) fn selected_mut(&mut self) -> Option<&mut QueueRegisters> {
        let index = usize::try_from(self.queue_sel).ok()?;
        self.queues.get_mut(index).filter(|queue| !queue.ready)
    }
}

/// Replaces one half of a 64-bit address: half 0 is the low one.
pub(super) fn set_half(address: &mut u64, half: usize, value: u32) {
    let value = u64::from(value);
    *address = if half == 0 {
        *address & !0xffff_ffff | value
    } else {
        *address & 0xffff_ffff | value << 32
    };
}
