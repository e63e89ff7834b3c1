//! The devices of a guest: consumers of doorbells for the bench, and the devices of a PC.
//!
//! A doorbell can be a device model on the bus (a heavy exit), an eventfd (a light exit, which wakes a thread) or a
//! word in shared memory (which a thread polls). A [`DoorbellPage`] has doorbells that carry values. The other devices
//! are the ones that kvm-unit-tests expects on a PC: [`pci`] with [`pci_testdev`], [`pc_testdev`], a serial port,
//! firmware configuration, a clock, ACPI tables, registers and timer, and ways to reset and switch off. Devices of
//! [`virtio`] have virtqueues, and their notifications are doorbells.
//!
//! ```
//! use std::sync::Arc;
//! use vmbell::bus::{Bus, BusRange};
//! use vmbell_devices::DoorbellCounter;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ports = Bus::new();
//! let doorbell = Arc::new(DoorbellCounter::default());
//! ports.insert(BusRange::new(0x510, 4)?, doorbell.clone())?;
//! let mut vcpu = ports.reader();
//! assert!(vcpu.write(0x510, &[1, 0, 0, 0]));
//! assert_eq!(doorbell.rings(), 1);
//! # Ok(())
//! # }
//! ```

mod acpi;
mod chr_testdev;
mod consumers;
mod doorbell_page;
#[cfg(test)]
mod filled;
mod fw_cfg;
mod ioapic;
mod listener;
mod output;
pub mod pc_testdev;
pub mod pci;
pub mod pci_testdev;
mod power;
#[cfg(test)]
mod registry_double;
mod reset;
mod rtc;
mod serial;
mod snapshot;
pub mod virtio;

pub use acpi::{ACPI_BASE, AcpiHardware, WAKING_VECTOR, acpi_tables};
pub use chr_testdev::ChrTestdev;
pub use consumers::{DoorbellCounter, Hook, WordPoller};
pub use doorbell_page::DoorbellPage;
pub use fw_cfg::{FW_CFG_PORTS, FwCfg};
pub use ioapic::{IO_APIC, IO_APIC_LEN, IoApic, IoApicPin, IoApicRegisters};
pub use listener::Listener;
pub use output::Output;
pub use power::{
    PM_TIMER_LEN, PM_TIMER_PORT, PM1_CONTROL_LEN, PM1_CONTROL_PORT, PM1_EVENT_LEN, PM1_EVENT_PORT,
    Pm1, PmTimer, SCI_GSI, SLEEP_PORTS, SLEEP_PORTS_LEN, Sleep, SleepRegisters,
};
pub use reset::{I8042, I8042_LEN, I8042_PORTS, PORT_A, PortA, SHUTDOWN_PORT, ShutdownPort};
pub use rtc::{RTC_CENTURY, RTC_GSI, RTC_LEN, RTC_PORTS, Rtc};
pub use serial::{SERIAL_GSI, SERIAL_LEN, SERIAL_PORTS, Serial, UartState};
pub use snapshot::SnapshotError;
