//! What every transport has: the status, the choice of features and the description of queues (virtio 1.3, 2.1, 2.2 and
//! 3.1), on the thread of the vCPU that accesses them.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::refusal::Trouble;
use super::registers::Registers;
use super::server::{DriverSide, Server};
use super::{Interrupts, Refusal, features};
use vmbell::virtqueue::Status;

/// The most descriptors of a queue.
pub(super) const QUEUE_SIZE_MAX: u16 = 256;

/// A device without a transport.
pub(super) struct Control {
    server: Arc<dyn Server>,
    registers: Mutex<Registers>,
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
    pub(super) fn new(server: Arc<dyn Server>, driver: DriverSide, size: u16) -> Self {
        Self {
            registers: Mutex::new(Registers::new(server.queues(), size)),
            server,
            interrupts: driver.interrupts,
            trouble: driver.trouble,
        }
    }

    /// Who serves the queues.
    pub(super) fn server(&self) -> &Arc<dyn Server> {
        &self.server
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

    /// Resets the device: no thread accesses a ring any more.
    pub(super) fn reset(&self, registers: &mut Registers) {
        self.server.stop();
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
            let offered = self.server.features();
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

    fn go_live(&self, registers: &Registers) {
        let started = self
            .server
            .start(registers.driver_features, &registers.queues);
        if let Err(refusal) = started {
            self.trouble.note(refusal);
            self.interrupts.configuration();
        }
    }

    /// Reads the configuration that only this type of device has, at any offset and width; what is behind its end reads as zeros.
    pub(super) fn read_config(&self, offset: u64, data: &mut [u8]) {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let config = self.server.config().get(offset..).unwrap_or_default();
        data.fill(0);
        for (byte, config) in data.iter_mut().zip(config) {
            *byte = *config;
        }
    }

    /// The half of the device's features that the driver has selected.
    pub(super) fn offered(&self, registers: &Registers) -> u32 {
        features::half(self.server.features(), registers.device_features_sel)
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
            self.server.stop_queue(index);
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
        let features = registers.driver_features;
        match self.server.check(index, &queue, features) {
            Ok(()) => registers.queues[usize::from(index)].ready = true,
            Err(refusal) => self.trouble.note(refusal),
        }
    }
}
