//! A host's PCI device as a function of the guest's bus, with a device of memory.

mod hostile_device;
mod interrupts;
mod model;
mod pc;
mod registers;

use std::sync::Arc;

use self::pc::{MSI, MSIX, PENDING, POWER, Pc, TABLE, TABLE_BAR, VECTORS, gsi};
use vmbell::irq::{Gsi, Msi};
use vmbell::sync::Mutex;
use vmbell_devices::pci::CONFIG_SIZE;
use vmbell_vfio::pci::{AssignError, AssignedError, AssignedPci};

use testbed::assigned::{Event, Parts, Wired};
