//! The interrupts of an arm64 guest: a shared peripheral interrupt, and an LPI for messages.

use super::{InterruptSource, Wiring};
use crate::SubjectError;
use vmbell::doorbell::IoEventAddress;
use vmbell::irq::{Gic, Gsi, IrqError, Msi, Route, Target};
use vmbell_guest::{GicInterrupt, Interrupts, LpiMessage, PARAMETERS};
use vmbell_hypervisor::Vm;
use vmbell_hypervisor::aarch64::{FIRST_SPI, ITS};

/// The shared peripheral interrupt, which is also the GSI, of edges and levels.
const PIN: u8 = 5;
/// The GSI of messages.
const MESSAGE: u32 = 24;
/// The register of the ITS to which devices store their messages.
const TRANSLATER: u64 = ITS + 0x1_0040;
/// The device's number in the ITS, the data of its message, and the address of the guest's tables, above its program,
/// its stacks and its rings.
const DEVICE: u32 = 1;
const EVENT: u32 = 3;
/// The LPI of the event. The program counts events from the first LPI, 8192, on.
const LPI: u32 = 8192 + EVENT;
const TABLES: u64 = PARAMETERS.0 + 0x20_0000;

impl Wiring {
    /// Wires up an interrupt of a guest. Skips the scenario if the guest's controllers do not have such an interrupt.
    pub(crate) fn new(
        vm: &dyn Vm,
        source: InterruptSource,
        subject: &str,
    ) -> Result<Self, SubjectError> {
        let gic = vm
            .gic()
            .ok_or_else(|| SubjectError::Skipped("the guest has no interrupt controller".into()))?;
        if source == InterruptSource::Message && gic == Gic::V2 {
            return Err(SubjectError::Skipped(
                "a GICv2 has no message-signalled interrupts".into(),
            ));
        }
        let failed = |error: IrqError| SubjectError::failed(subject, error);
        let route = |gsi: u32, target| -> Result<_, SubjectError> {
            let gsi = Gsi::new(gsi).map_err(failed)?;
            Ok(Some(Route { gsi, target }))
        };
        let message = Msi {
            address: TRANSLATER,
            data: EVENT,
            device: Some(DEVICE),
        };
        let (route, intid) = match source {
            InterruptSource::Itself => (None, 0),
            InterruptSource::Edge | InterruptSource::Level => (
                route(PIN.into(), Target::Pin(PIN))?,
                FIRST_SPI + u32::from(PIN),
            ),
            InterruptSource::Message => (route(MESSAGE, Target::Msi(message))?, LPI),
        };
        let message = LpiMessage {
            tables: TABLES,
            device: DEVICE,
            event: EVENT,
        };
        let interrupt = GicInterrupt {
            gic,
            intid,
            level: source == InterruptSource::Level,
            message: (source == InterruptSource::Message).then_some(message),
        };
        Ok(Self {
            route,
            interrupts: Interrupts {
                gic: Some(interrupt),
                ..Interrupts::default()
            },
        })
    }
}

/// The address at which a program rings, `number` bytes from the start of the range for such devices.
pub(crate) const fn bell(number: u16) -> IoEventAddress {
    IoEventAddress::Mmio(0xd000_0000 + number as u64)
}
