//! The values that the driver has written to the registers: pure state, without guest memory and threads.

use super::Refusal;
use super::control::QUEUE_SIZE_MAX;
use vmbell::virtqueue::Status;

/// The registers of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueRegisters {
    pub(super) size: u32,
    pub(super) descriptors: u64,
    pub(super) driver: u64,
    pub(super) device: u64,
    pub(super) ready: bool,
}

impl QueueRegisters {
    /// The number of descriptors, which the driver has chosen.
    ///
    /// # Errors
    ///
    /// If it is more than a device allows.
    pub(super) fn checked_size(&self, index: u16) -> Result<u16, Refusal> {
        let size = u16::try_from(self.size).ok();
        size.filter(|size| *size <= QUEUE_SIZE_MAX)
            .ok_or(Refusal::Size {
                queue: index,
                size: self.size,
                most: QUEUE_SIZE_MAX,
            })
    }
}

/// The registers of the device. After a reset all are zero, except for the sizes of queues on some transports.
#[derive(Clone, Debug, Default)]
pub(super) struct Registers {
    pub(super) status: Status,
    pub(super) device_features_sel: u32,
    pub(super) driver_features_sel: u32,
    pub(super) driver_features: u64,
    pub(super) queue_sel: u32,
    pub(super) queues: Vec<QueueRegisters>,
    /// The size of each queue after a reset.
    size: u16,
}

impl Registers {
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
