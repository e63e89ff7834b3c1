//! What a VMM chooses for a virtio device, on either transport.

use std::io;

/// How a driver's notifications reach the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notify {
    /// By a doorbell, whose eventfd wakes the device's thread.
    #[default]
    Doorbell,
    /// By doorbells that wake one thread for all queues of the device. After its last chain it looks at the rings for 200 us before it
    /// sleeps, and lets other threads run between two looks. The driver need not notify meanwhile. It takes a CPU of the host while
    /// the driver is busy.
    Poll,
    /// By an exit of the vCPU, on whose thread the queue is served.
    Exit,
    /// Not at all: the driver is told that it need not notify, and a thread of the VMM calls [`Queue::serve`](super::Queue::serve)
    /// all the time.
    Never,
}

/// How the device's interrupts reach the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Raise {
    /// By an irqfd, whose GSI has the message as its route, or is the line.
    #[default]
    Irqfd,
    /// By a call for each interrupt.
    Call,
}

/// The choices of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtioConfig {
    /// How notifications come.
    pub notify: Notify,
    /// How interrupts go.
    pub raise: Raise,
    /// Whether the driver may notify by I/O ports, too, which cost less: for a store the hypervisor has to find out what the
    /// instruction does, unless the CPU tells it. Only on PCI, in a machine with ports.
    pub notify_ports: bool,
    /// Whether the driver may choose packed rings. Not with a worker.
    pub packed: bool,
    /// Whether the driver may say with a notification how far it has made buffers available
    /// (`VIRTIO_F_NOTIFICATION_DATA`). Only on PCI, and with a doorbell, on a backend with
    /// [`Capability::PayloadDoorbell`](vmbell_hypervisor::Capability::PayloadDoorbell).
    pub notification_data: bool,
}

impl VirtioConfig {
    /// The choices of a device on MMIO registers.
    ///
    /// # Errors
    ///
    /// One of them needs PCI. Ports for notifications are left out, because the driver need not use them.
    pub(super) fn on_mmio(self) -> io::Result<Self> {
        let why = "notification data needs PCI: MMIO registers have one for all queues";
        self.without(&[(self.notification_data, why)])
    }

    /// The choices of a device whose queues are served by threads of this process.
    ///
    /// # Errors
    ///
    /// They contradict each other.
    pub(super) fn of_handler(self) -> io::Result<Self> {
        let has_bell = matches!(self.notify, Notify::Doorbell | Notify::Poll);
        let needs_bell = !has_bell && self.notification_data;
        self.without(&[(needs_bell, "notification data needs a doorbell")])
    }

    /// The choices of a device whose queues a worker serves.
    ///
    /// # Errors
    ///
    /// A worker cannot do one of them.
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
