mod device;
mod hostile_device;
mod interrupts;
mod model;
mod pc;
mod registers;

use std::sync::Arc;

use self::device::{Event, Parts, Wired};
use self::pc::{MSI, MSIX, PENDING, POWER, Pc, TABLE, TABLE_BAR, VECTORS, gsi};
use super::*;
use vmbell::irq::{Gsi, Msi};
use vmbell::sync::Mutex;
use vmbell_devices::pci::CONFIG_SIZE;
