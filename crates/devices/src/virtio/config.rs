//! What a VMM chooses for a virtio device, for both transports.

use std::io;

/// How a driver's notifications reach the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notify {
    /// By a doorbell, whose eventfd wakes the device's thread.
    #[default]
    Doorbell,
    /// By doorbells that wake one thread for all queues of the device. After its last chain, the thread polls the rings
    /// for 200 us before it sleeps, and lets other threads run between two polls. The driver need not notify meanwhile.
    /// The thread takes a CPU of the host while the driver is busy.
    Poll,
    /// By an exit of the vCPU, on whose thread the queue is served.
    Exit,
    /// Not at all: the driver is told that it need not notify, and a thread of the VMM keeps calling
    /// [`Queue::serve`](super::Queue::serve).
    Never,
}

/// How the device's interrupts reach the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Raise {
    /// By an irqfd. Its GSI is routed to the message, or is the line's GSI.
    #[default]
    Irqfd,
    /// By a call for each interrupt.
    Call,
}

/// The choices for a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtioConfig {
    /// How notifications come.
    pub notify: Notify,
    /// How interrupts go.
    pub raise: Raise,
    /// Whether the driver may also notify through I/O ports, which cost less: for a store to memory, the hypervisor has
    /// to decode the instruction, unless the CPU does so. This needs the PCI transport and a machine with ports.
    pub notify_ports: bool,
    /// Whether the driver may choose packed rings. A device with a worker does not offer them.
    pub packed: bool,
    /// Whether the driver may say with a notification how far it has made buffers available
    /// (`VIRTIO_F_NOTIFICATION_DATA`). This needs the PCI transport, a doorbell, and a backend with
    /// [`Capability::PayloadDoorbell`](vmbell_hypervisor::Capability::PayloadDoorbell).
    pub notification_data: bool,
}

impl VirtioConfig {
    /// Returns the choices for a device on MMIO registers.
    ///
    /// # Errors
    ///
    /// If a choice needs PCI. Ports for notifications are left out without an error, because the driver need not use
    /// them.
    pub(super) fn on_mmio(self) -> io::Result<Self> {
        let why = "notification data needs PCI: MMIO registers have one for all queues";
        self.without(&[(self.notification_data, why)])
    }

    /// Returns the choices for a device whose queues are served by threads of this process.
    ///
    /// # Errors
    ///
    /// If the choices contradict each other.
    pub(super) fn of_handler(self) -> io::Result<Self> {
        let has_bell = matches!(self.notify, Notify::Doorbell | Notify::Poll);
        let needs_bell = !has_bell && self.notification_data;
        self.without(&[(needs_bell, "notification data needs a doorbell")])
    }

    /// Returns the choices for a device whose queues a worker serves.
    ///
    /// # Errors
    ///
    /// If a worker does not support one of the choices.
    pub(super) fn of_worker(self) -> io::Result<Self> {
        self.without(&[
            (self.packed, "a worker has no packed rings"),
            (
                self.notification_data,
                "a worker takes no notification data",
            ),
            (
                matches!(self.notify, Notify::Poll | Notify::Never),
                "a worker does not poll",
            ),
        ])
    }

    fn without(self, impossible: &[(bool, &'static str)]) -> io::Result<Self> {
        match impossible.iter().find(|(is_chosen, _)| *is_chosen) {
            Some((_, why)) => Err(io::Error::new(io::ErrorKind::InvalidInput, *why)),
            None => Ok(self),
        }
    }
}
