//! Virtio devices: one of each kind, driven through one queue.

mod find;
mod kind;
mod mmio;
mod pci;
mod queue;

use core::sync::atomic::Ordering::Relaxed;

use super::apic::Pin;
use super::cpu::{disable_interrupts, enable_interrupts, out16};
use super::interrupt::{STATUS_ACKNOWLEDGE, STATUS_ADDRESS};
use super::memory::Registers;
use super::time::wait_until;
pub use find::Devices;
pub use kind::{FRAME_LEN, Kind};
pub use queue::{PackedDescriptor, Part, Queue, SIZE};

/// Bits of a device's status.
const ACKNOWLEDGE: u8 = 1;
const DRIVER: u8 = 2;
const DRIVER_OK: u8 = 4;
const FEATURES_OK: u8 = 8;
/// The upper half of VIRTIO_F_VERSION_1, the only feature that the rows use.
const VERSION_1_HIGH: u32 = 1;
/// VIRTIO_RING_F_EVENT_IDX, which only a sweep accepts.
const EVENT_IDX: u32 = 1 << 29;
/// The upper half of VIRTIO_F_RING_PACKED, which only a sweep accepts.
const RING_PACKED_HIGH: u32 = 1 << 2;

/// The features that a device gets if it offers them, in two halves.
#[derive(Clone, Copy)]
pub struct Features([u32; 2]);

impl Features {
    pub fn new(event_idx: bool, packed: bool) -> Self {
        Self([
            if event_idx { EVENT_IDX } else { 0 },
            if packed { RING_PACKED_HIGH } else { 0 },
        ])
    }
}

/// Why a device that did not answer has no rows.
pub const NO_ANSWER: &str = "the device does not answer";
/// Why a kind without a device has no rows.
const NO_DEVICE: &str = "there is no such device";

/// How a device interrupts.
#[derive(Clone, Copy)]
pub enum Interrupt {
    /// By MSI-X, with the mask of its vector in this register.
    Msix(Registers),
    /// By a PCI device's INTx line.
    Intx(Line),
    /// By a virtio-mmio device's own line.
    Mmio(Line),
}

/// A line, and the register that tells whether the device has interrupted.
#[derive(Clone, Copy)]
pub struct Line {
    pin: Pin,
    pub gsi: u32,
    status: Registers,
}

/// Where a queue is notified, and the queue's number, which is written there.
#[derive(Clone, Copy)]
struct Notify {
    place: NotifyPlace,
    queue: u16,
}

/// Where a queue is notified.
#[derive(Clone, Copy)]
enum NotifyPlace {
    /// A virtio-mmio register of four bytes.
    Mmio(Registers),
    /// A virtio-pci address of two bytes.
    Pci(Registers),
    /// A virtio-pci port.
    PciPort(u16),
}

/// A device that has answered a request.
#[derive(Clone, Copy)]
pub struct Device {
    pub kind: Kind,
    pub found_by: &'static str,
    pub interrupt: Option<Interrupt>,
    notify: Notify,
    /// The status register, by which the device is reset.
    status: Registers,
    queue: &'static Queue,
    /// Whether EVENT_IDX was negotiated.
    pub event_idx: bool,
    /// Whether the ring is packed.
    pub packed: bool,
    sum: u64,
}

impl Device {
    /// Whether the device is on a PCI bus.
    pub fn is_pci(&self) -> bool {
        !matches!(self.notify.place, NotifyPlace::Mmio(_))
    }

    /// The queue.
    pub fn queue(&self) -> &'static Queue {
        self.queue
    }

    /// Masks the device's interrupt and unmasks it again, so that a pending one is delivered.
    pub fn ask_again(&self, cpu: u32) {
        match self.interrupt {
            None => {}
            Some(Interrupt::Msix(mask)) => {
                mask.write32(0, 1);
                mask.write32(0, 0);
            }
            Some(Interrupt::Intx(line) | Interrupt::Mmio(line)) => {
                line.pin.close();
                line.pin.open(cpu);
            }
        }
    }

    /// Makes the request available to the device, without a notification.
    #[inline]
    pub fn submit(&self) {
        self.queue.submit();
    }

    /// Notifies the device.
    #[inline]
    pub fn kick(&self) {
        let Notify { place, queue } = self.notify;
        match place {
            NotifyPlace::Mmio(register) => register.write32(0, u32::from(queue)),
            NotifyPlace::Pci(address) => address.write16(0, queue),
            NotifyPlace::PciPort(port) => out16(port, queue),
        }
    }

    /// Whether the device has answered.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.queue.is_done()
    }

    /// Resets a device that does not answer, so that a late answer does not disturb other rows.
    fn reset(&self) {
        self.ignore();
        if self.is_pci() {
            self.status.write8(0, 0);
        } else {
            self.status.write32(0, 0);
        }
    }

    /// Makes one request and waits for the answer.
    fn request(&self) -> Result<(), &'static str> {
        self.kind.forget(self.queue);
        self.submit();
        self.kick();
        if wait_until(|| self.is_done()) {
            self.kind.check(self.queue)
        } else {
            Err(NO_ANSWER)
        }
    }

    /// Makes one request and checks the answer.
    pub fn check(&self) -> Result<(), &'static str> {
        self.request()?;
        if self.kind.sum(self.queue) != self.sum {
            return Err("the device answers the same request with other data");
        }
        Ok(())
    }

    /// Makes two requests, and keeps a checksum of the first answer to check later answers. A device that fails is
    /// reset.
    fn tried(mut self) -> Result<Self, &'static str> {
        // The requests of rows are for split rings.
        if self.packed {
            return Ok(self);
        }
        let answered = self.request().and_then(|()| {
            self.sum = self.kind.sum(self.queue);
            self.check()
        });
        if answered.is_err() {
            self.reset();
        }
        answered.map(|()| self)
    }

    /// Lets the device interrupt this CPU.
    pub fn listen(&self, cpu: u32) -> Result<(), &'static str> {
        match self.interrupt {
            None => return Err("the device has no interrupt that the image could find"),
            Some(Interrupt::Msix(_)) => {}
            Some(Interrupt::Intx(line)) => {
                STATUS_ACKNOWLEDGE.store(0, Relaxed);
                STATUS_ADDRESS.store(line.status.address(), Relaxed);
                line.status.read8(0);
                line.pin.open(cpu);
            }
            Some(Interrupt::Mmio(line)) => {
                STATUS_ACKNOWLEDGE.store(1, Relaxed);
                STATUS_ADDRESS.store(line.status.address(), Relaxed);
                line.status.write32(4, line.status.read32(0));
                line.pin.open(cpu);
            }
        }
        self.queue.ask_for_interrupts(true);
        // Takes an interrupt that was held back until now: it is not the one that the row waits for.
        enable_interrupts();
        core::hint::spin_loop();
        disable_interrupts();
        Ok(())
    }

    /// Stops the device's interrupts: the reverse of `listen`.
    pub fn ignore(&self) {
        self.queue.ask_for_interrupts(false);
        if let Some(Interrupt::Intx(line) | Interrupt::Mmio(line)) = self.interrupt {
            line.pin.close();
            STATUS_ADDRESS.store(0, Relaxed);
        }
    }
}
