//! The registers as a device of the bus (virtio 1.3, 4.2.2), on the thread of the vCPU that accesses them.

use std::sync::Arc;
use std::{fmt, io};

use vm_memory::GuestMemoryMmap;
use vmbell::bus::{Backlog, BusDevice};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::eventfd::EventFd;
use vmbell_hypervisor::{Doorbell, Error, IoEvents};
use vmbell_virtqueue::Status;

use super::interrupt::Interrupt;
use super::register;
use crate::virtio::device::VirtioDevice;
use crate::virtio::device::{Control, set_half};
use crate::virtio::driver::Interrupts;
use crate::virtio::driver::Refusal;
use crate::virtio::queue::Queue;
use crate::virtio::ring::{QUEUE_SIZE_MAX, QueueRegisters};

/// A virtio device with MMIO registers.
pub struct VirtioMmio {
    control: Control,
    interrupt: Arc<Interrupt>,
    doorbells: Vec<Doorbell>,
}

impl fmt::Debug for VirtioMmio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VirtioMmio").field(&self.control).finish()
    }
}

impl VirtioMmio {
    /// Creates a device in the state after a reset, whose queues are in `memory`. A signal of [`kick`](Self::kick)
    /// wakes the thread that serves a queue, if there is one. For a device with a worker, each of the worker's calls
    /// wakes a thread, since each interrupt sets a bit of `InterruptStatus` (virtio 1.3, 4.2.2).
    ///
    /// `backlog` is the machine's: it continues the service of a notification that exceeds the budget.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads, or if the choices of the device contradict each other,
    /// or include [`notification_data`](crate::virtio::VirtioConfig::notification_data): one register notifies all
    /// queues, and a doorbell there has the value of one queue at a time.
    pub fn new(
        device: VirtioDevice,
        memory: &GuestMemoryMmap,
        interrupt: Interrupt,
        backlog: Backlog,
    ) -> io::Result<Self> {
        device.config().on_mmio()?;
        let interrupt = Arc::new(interrupt);
        let theirs = Arc::clone(&interrupt) as Arc<dyn Interrupts>;
        Ok(Self {
            control: Control::new(device, memory.clone(), theirs, backlog, 0)?,
            interrupt,
            doorbells: Vec::new(),
        })
    }

    /// Registers the doorbells of a device whose registers are at `address`: for the notifications of each queue for
    /// which a thread or a worker sleeps, and for the [acknowledgement](Interrupt::acknowledge_by_doorbell). They are
    /// removed when the device is dropped.
    pub fn register_doorbells(&mut self, events: &dyn IoEvents, address: u64) -> Result<(), Error> {
        let server = self.control.server();
        let kicks = (0..self.control.device().queues).filter_map(|index| {
            let kick = server.kick(index)?;
            Some((kick, register::QUEUE_NOTIFY, u32::from(index)))
        });
        let acknowledged = self.interrupt.acknowledged().into_iter();
        let acknowledged =
            acknowledged.map(|event| (event, register::INTERRUPT_ACK, Interrupt::ACKNOWLEDGE));
        let registered = acknowledged.chain(kicks).map(|(event, register, value)| {
            let address = IoEventAddress::Mmio(address + register);
            let value = Datamatch::U32(Some(value));
            events.register_ioevent(event, address, value, Sharing::Exclusive)
        });
        self.doorbells = registered.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// The eventfd whose signal notifies the queue, if a thread waits for it.
    pub fn kick(&self, index: u16) -> Option<&Arc<EventFd>> {
        self.control.server().kick(index)
    }

    /// The queues, which a thread of the VMM may serve; none if a worker serves them.
    pub fn queues(&self) -> &[Arc<Queue>] {
        self.control.server().queues()
    }

    /// Takes the last refusal; `None` if nothing was refused since the last call.
    pub fn take_refusal(&self) -> Option<Refusal> {
        self.control.take_refusal()
    }

    fn get(&self, offset: u64) -> u32 {
        let registers = self.control.registers();
        let selected = registers.selected();
        match offset {
            register::MAGIC_VALUE => register::MAGIC,
            register::VERSION => 2,
            register::DEVICE_ID => self.control.device().id,
            register::VENDOR_ID => u32::from_le_bytes(*b"bell"),
            register::DEVICE_FEATURES => self.control.offered(&registers),
            register::QUEUE_SIZE_MAX => selected.map_or(0, |_| QUEUE_SIZE_MAX.into()),
            register::QUEUE_READY => selected.map_or(0, |(_, queue)| queue.ready.into()),
            register::INTERRUPT_STATUS => self.interrupt.reasons(),
            register::STATUS => self.control.status(&registers).0.into(),
            offset if register::SHM.contains(&offset) => u32::MAX,
            _ => 0,
        }
    }

    fn set(&self, offset: u64, value: u32) {
        if offset == register::QUEUE_NOTIFY {
            // The registers' lock is not held, because this serves the queue.
            if let Ok(index) = u16::try_from(value) {
                self.control.server().notify(index);
            }
            return;
        }
        let mut registers = self.control.registers();
        match offset {
            register::DEVICE_FEATURES_SEL => registers.device_features_sel = value,
            register::DRIVER_FEATURES_SEL => registers.driver_features_sel = value,
            register::DRIVER_FEATURES => self.control.choose(&mut registers, value),
            register::QUEUE_SEL => registers.queue_sel = value,
            register::QUEUE_READY if value & 1 == 0 => self.control.disable_queue(&mut registers),
            register::QUEUE_READY => self.control.enable_queue(&mut registers),
            register::INTERRUPT_ACK => self.interrupt.acknowledge(value),
            #[expect(clippy::cast_possible_truncation, reason = "the field is 8 bits")]
            register::STATUS => self.control.set_status(&mut registers, Status(value as u8)),
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
/// 4.2.2.2) and has no effect. The configuration after them is accessed at any width.
impl BusDevice for VirtioMmio {
    fn read(&self, offset: u64, data: &mut [u8]) {
        if let Some(offset) = offset.checked_sub(register::CONFIG) {
            return self.control.read_config(offset, data);
        }
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
