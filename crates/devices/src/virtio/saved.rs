//! The state of a device without its transport, and how it is saved and restored, on the thread that does so for the
//! whole guest.
//!
//! A restore writes the registers as the driver did, so a hostile state can do no more than a hostile driver. Only the
//! positions in the rings are set directly, after the check of [`DeviceControl`](vmbell_virtqueue::DeviceControl).

use serde::{Deserialize, Serialize};
use vmbell_virtqueue::{DeviceState, Status};

use super::device::{Control, DriverRegisters};
use super::ring::QueueRegisters;
use crate::snapshot::SnapshotError;

/// What a device offers, and what its driver has written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VirtioState {
    offered: u64,
    config: Vec<u8>,
    status: u8,
    device_features_sel: u32,
    driver_features_sel: u32,
    driver_features: u64,
    queue_sel: u32,
    queues: Vec<QueueState>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueState {
    size: u32,
    descriptors: u64,
    driver: u64,
    device: u64,
    ready: bool,
    /// The positions in the ring; `null` if the queue is not started.
    #[serde(deserialize_with = "required")]
    ring: Option<DeviceState>,
}

/// Reads an optional value whose field must exist.
fn required<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<DeviceState>, D::Error> {
    Deserialize::deserialize(from)
}

impl Control {
    fn different(&self, what: impl Into<String>) -> SnapshotError {
        SnapshotError::Different {
            device: self.device().name,
            what: what.into(),
        }
    }

    /// Pauses the device until [`resume`](Self::resume), and returns its state. If it cannot be saved, some of its
    /// queues may be paused.
    pub(super) fn pause(&self) -> Result<VirtioState, SnapshotError> {
        let registers = self.registers();
        let rings = self.server().pause()?;
        // After the pause, because a queue may break while the pause waits for it.
        if self.status(&registers).has(Status::NEEDS_RESET) {
            return Err(SnapshotError::Unsaved {
                device: self.device().name,
                reason: "its driver has broken a queue and has not reset it yet",
            });
        }
        let queue = |(queue, ring): (&QueueRegisters, _)| QueueState {
            size: queue.size,
            descriptors: queue.descriptors,
            driver: queue.driver,
            device: queue.device,
            ready: queue.ready,
            ring,
        };
        Ok(VirtioState {
            offered: self.device().features,
            config: self.device().config.to_vec(),
            status: registers.status.0,
            device_features_sel: registers.device_features_sel,
            driver_features_sel: registers.driver_features_sel,
            driver_features: registers.driver_features,
            queue_sel: registers.queue_sel,
            queues: registers.queues.iter().zip(rings).map(queue).collect(),
        })
    }

    /// Restores a state. The device is paused until [`resume`](Self::resume), even if this fails.
    pub(super) fn restore(&self, state: &VirtioState) -> Result<(), SnapshotError> {
        let (offered, config) = (self.device().features, &self.device().config);
        if state.offered != offered {
            let saved = state.offered;
            return Err(self.different(format!("it offers features {offered:#x}, not {saved:#x}")));
        }
        if *state.config != **config {
            return Err(self.different("its configuration, such as the size of a disk, is another"));
        }
        let mut registers = self.registers();
        let registers = &mut *registers;
        if state.queues.len() != registers.queues.len() {
            return Err(self.different("the number of its queues is another"));
        }
        self.reset(registers);
        self.server().pause()?;
        self.start_as_driver(registers, state)?;
        registers.device_features_sel = state.device_features_sel;
        registers.driver_features_sel = state.driver_features_sel;
        registers.queue_sel = state.queue_sel;
        let rings: Vec<_> = state
            .queues
            .iter()
            .map(|queue| queue.ring.as_ref())
            .collect();
        self.server().restore(&rings)
    }

    /// Writes what the driver wrote, in its order: features, queues, DRIVER_OK.
    fn start_as_driver(
        &self,
        registers: &mut DriverRegisters,
        state: &VirtioState,
    ) -> Result<(), SnapshotError> {
        let last = Status(state.status);
        registers.driver_features = state.driver_features;
        let before = Status(last.0 & !Status::DRIVER_OK.0);
        if before != Status::RESET {
            self.set_status(registers, before);
        }
        for (index, queue) in (0_u16..).zip(&state.queues) {
            registers.queues[usize::from(index)] = QueueRegisters {
                size: queue.size,
                descriptors: queue.descriptors,
                driver: queue.driver,
                device: queue.device,
                ready: false,
            };
            if queue.ready {
                registers.queue_sel = u32::from(index);
                self.enable_queue(registers);
            }
            let is_ready = registers.queues[usize::from(index)].ready;
            if is_ready != queue.ready
                || queue.ring.is_some() != (queue.ready && last.has(Status::DRIVER_OK))
            {
                return Err(self.different(format!("queue {index} cannot be in this state")));
            }
        }
        if last != before {
            self.set_status(registers, last);
        }
        if self.status(registers) != last {
            let status = state.status;
            return Err(self.different(format!("its status cannot be {status:#x}")));
        }
        Ok(())
    }

    /// Continues after a pause or a restore, and **signals each started queue to the device and to the driver once**.
    ///
    /// What a snapshot does not have is a signal on its way: a notification in an eventfd that no thread has read yet,
    /// or that a thread has read without finding its paused queue; the rest of a queue whose service had used up its
    /// budget; an interrupt that waited to be coalesced, or that an irqfd had not delivered to the vCPU when the vCPU's
    /// state was read. Each would be lost, and driver and device could wait for each other for ever. A signal that was
    /// not needed is harmless: both sides look at the ring and find nothing (virtio 1.3, 2.7.7 and 2.7.10). So no state
    /// says which signals were on their way, and a guest that continues after its save gets the same signals as its
    /// copies.
    pub(super) fn resume(&self) {
        self.server().resume();
        let started: Vec<u16> = {
            let registers = self.registers();
            let is_running = registers.status.has(Status::DRIVER_OK);
            let ready = (0..)
                .zip(&registers.queues)
                .filter(|(_, queue)| queue.ready);
            ready
                .filter(|_| is_running)
                .map(|(index, _)| index)
                .collect()
        };
        for queue in started {
            self.interrupts().used_buffer(queue);
            self.server().notify(queue);
        }
    }
}
