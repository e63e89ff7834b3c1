//! The semantics of the registers, accessed as a driver accesses them, with this workspace's driver side on the ring.

#[cfg(not(miri))]
mod back_end;
mod budget;
mod hostile;
mod live;
mod negotiation;
mod queues;
#[cfg(not(miri))]
mod reset;
#[cfg(not(miri))]
mod vhost_user;
mod worker;

use std::sync::Arc;

use vm_memory::{GuestAddress, GuestMemoryMmap};

use super::{Interrupt, VirtioMmio, register};
use crate::virtio::worker_double::Double;
use crate::virtio::{Handler, Inverter, Notify, Refusal, Served, VirtioConfig, VirtioDevice};
use vmbell::bus::{Backlog, BusDevice};
use vmbell_virtqueue::SplitLayout;

const RAM: usize = 0x1_0000;
const VERSION_1: u32 = 1;
const ACKNOWLEDGE: u32 = 1;
const DRIVER: u32 = 2;
const DRIVER_OK: u32 = 4;
const FEATURES_OK: u32 = 8;
const NEEDS_RESET: u32 = 64;
const PROBED: u32 = ACKNOWLEDGE | DRIVER;

/// A device with two queues, as its driver sees it.
pub struct Device {
    pub memory: GuestMemoryMmap,
    pub transport: VirtioMmio,
    pub backlog: Backlog,
}

impl Device {
    pub fn new(notify: Notify) -> Self {
        Self::with(notify, Interrupt::none())
    }

    pub fn with(notify: Notify, interrupt: Interrupt) -> Self {
        Self::of(Inverter, notify, interrupt)
    }

    pub fn of(handler: impl Handler + 'static, notify: Notify, interrupt: Interrupt) -> Self {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), RAM)]).unwrap();
        let backlog = Backlog::default();
        let config = VirtioConfig {
            notify,
            ..VirtioConfig::default()
        };
        let device = VirtioDevice::new(handler, 2, config);
        let transport = VirtioMmio::new(device, &memory, interrupt, backlog.clone());
        Self {
            memory,
            transport: transport.unwrap(),
            backlog,
        }
    }

    pub fn read(&self, offset: u64) -> u32 {
        let mut data = [0xee; 4];
        self.transport.read(offset, &mut data);
        u32::from_le_bytes(data)
    }

    pub fn write(&self, offset: u64, value: u32) {
        self.transport.write(offset, &value.to_le_bytes());
    }

    pub fn status(&self) -> u32 {
        self.read(register::STATUS)
    }

    /// Negotiates up to FEATURES_OK, with the lower half of the features.
    pub fn negotiate(&self, low: u32) {
        self.write(register::STATUS, 0);
        self.write(register::STATUS, ACKNOWLEDGE);
        self.write(register::STATUS, PROBED);
        for (selector, half) in [(0, low), (1, VERSION_1)] {
            self.write(register::DRIVER_FEATURES_SEL, selector);
            self.write(register::DRIVER_FEATURES, half);
        }
        self.write(register::STATUS, PROBED | FEATURES_OK);
        assert_eq!(self.status(), PROBED | FEATURES_OK);
    }

    /// Describes a queue and makes it ready; returns whether it is ready.
    pub fn set_up(&self, queue: u32, size: u32, layout: &SplitLayout) -> bool {
        self.write(register::QUEUE_SEL, queue);
        self.write(register::QUEUE_SIZE, size);
        let parts = [
            (register::QUEUE_DESC, layout.descriptors),
            (register::QUEUE_DRIVER, layout.avail),
            (register::QUEUE_DEVICE, layout.used),
        ];
        for ([low, high], address) in parts {
            self.write(low, (address & 0xffff_ffff) as u32);
            self.write(high, (address >> 32) as u32);
        }
        self.write(register::QUEUE_READY, 1);
        self.read(register::QUEUE_READY) == 1
    }

    pub fn go_live(&self) {
        self.write(register::STATUS, PROBED | FEATURES_OK | DRIVER_OK);
    }

    pub fn refusal(&self) -> Refusal {
        self.transport
            .take_refusal()
            .expect("something was refused")
    }
}
