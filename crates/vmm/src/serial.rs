//! The serial port of a board, whose interrupt is an irqfd.

use std::io::Write;
use std::sync::Arc;

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::MachineError;
use super::off::{Off, Switch};
use vmbell::irq::Gsi;
use vmbell_devices::{SERIAL_GSI, Serial};
use vmbell_hypervisor::{Error, Vm};

/// The serial port of a board.
pub type SerialPort = Serial<Box<dyn Write + Send>>;

/// A port that prints to `output`, and turns `switch` if it cannot. Its place is the board's.
pub(super) fn port(
    vm: &Arc<dyn Vm>,
    output: Box<dyn Write + Send>,
    switch: &Arc<Switch>,
) -> Result<SerialPort, MachineError> {
    let connect = || {
        let event = EventFd::new(EFD_NONBLOCK).map_err(|source| Error::System {
            operation: "make an eventfd",
            source,
        })?;
        vm.register_irqfd(&Arc::new(event), Gsi::new(SERIAL_GSI)?, None)
    };
    let irqfd = connect().map_err(MachineError::Serial)?;
    let switch = Arc::clone(switch);
    let on_error = move |error| switch.turn(Off::failed("the serial port", error));
    Ok(Serial::new(output, Some(Box::new(irqfd)), on_error))
}
