//! What a VMM chooses for a virtio device, on either transport.

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
    /// Whether the driver may choose packed rings.
    pub packed: bool,
    /// Whether the driver may say with a notification how far it has made buffers available
    /// (`VIRTIO_F_NOTIFICATION_DATA`). Only on PCI, and with a doorbell, on a backend with
    /// [`Capability::PayloadDoorbell`](vmbell_hypervisor::Capability::PayloadDoorbell).
    pub notification_data: bool,
}
