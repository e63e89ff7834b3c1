//! The interrupts of an x86-64 guest: messages to its local APIC, and a pin of the I/O APIC.

use super::{InterruptSource, Wiring};
use crate::SubjectError;
use vmbell::doorbell::IoEventAddress;
use vmbell::irq::{Gsi, IrqError, Msi, Route, Target};
use vmbell_guest::{Interrupts, VECTOR};
use vmbell_hypervisor::Vm;

/// The pin of the I/O APIC that level-triggered interrupts use.
const PIN: u8 = 5;
/// The first GSI that is not a pin, for interrupts that are messages.
const MESSAGE: u32 = 24;
/// The bit of a redirection entry that makes it level-triggered.
const LEVEL: u32 = 1 << 15;

impl Wiring {
    /// Wires up an interrupt of a guest.
    pub(crate) fn new(
        _: &dyn Vm,
        source: InterruptSource,
        subject: &str,
    ) -> Result<Self, SubjectError> {
        let failed = |error: IrqError| SubjectError::failed(subject, error);
        let route = |gsi: u32, target| -> Result<_, SubjectError> {
            let gsi = Gsi::new(gsi).map_err(failed)?;
            Ok(Some(Route { gsi, target }))
        };
        Ok(Self {
            route: match source {
                InterruptSource::Itself => None,
                InterruptSource::Edge | InterruptSource::Message => {
                    route(MESSAGE, Target::Msi(Msi::fixed(0, VECTOR)))?
                }
                InterruptSource::Level => route(PIN.into(), Target::Pin(PIN))?,
            },
            interrupts: Interrupts {
                route: (source == InterruptSource::Level)
                    .then_some((PIN, LEVEL | u32::from(VECTOR))),
                ..Interrupts::default()
            },
        })
    }
}

/// The address at which a program rings, `number` bytes from the start of the range for such devices: a port.
pub(crate) const fn bell(number: u16) -> IoEventAddress {
    IoEventAddress::Pio(0xc000 + number)
}
