//! What the guest sees: the doorbell harness, rung by every path there is, and the devices of a PC.
//!
//! The same bell can hang on the bus (a device model, rung by a heavy exit), behind an eventfd
//! (rung by a light one, heard by a thread) or on a word in shared memory (heard by whoever polls).
//! The others are what kvm-unit-tests expects of a PC: [`pci`] with [`pci_testdev`], a serial port,
//! firmware configuration, ACPI tables and their timer. [`virtio_mmio`] is a device whose bell is a
//! virtqueue's.

mod acpi;
mod counter;
mod fw_cfg;
mod hook;
mod listener;
pub mod pci;
pub mod pci_testdev;
mod pm_timer;
mod poller;
mod serial;
mod shutdown;
pub mod virtio_mmio;

pub use acpi::{ACPI_BASE, acpi_tables};
pub use counter::DoorbellCounter;
pub use fw_cfg::{FW_CFG_PORTS, FwCfg};
pub use hook::Hook;
pub use listener::Listener;
pub use pm_timer::{PM_TIMER_LEN, PM_TIMER_PORT, PmTimer};
pub use poller::Poller;
pub use serial::{SERIAL_LEN, SERIAL_PORTS, Serial};
pub use shutdown::{SHUTDOWN_PORT, ShutdownPort};
