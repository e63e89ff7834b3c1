//! The exit loop: runs one vCPU on the thread that owns it, and answers its exits from the buses.
//!
//! Before each entry the loop does the work that devices have left in the backlog, piece by piece, and looks
//! for a kick between the pieces. So a guest that always makes more work only keeps its own vCPU out of the
//! guest, and a kick waits for one piece at most. The rest of the backlog waits for the next loop.

use super::stop::Stop;
use super::{Machine, MachineError};
use vmbell::bus::{Backlog, BusReader};
use vmbell_guest::done;
use vmbell_hypervisor::{Vcpu, VmEntry, VmExit};

/// ENOSYS, Linux's return value for an unknown hypercall.
const ENOSYS: u64 = 38_u64.wrapping_neg();

/// The exit loop of one vCPU, with a reader of each bus for its thread.
#[derive(Debug)]
pub struct Runner<'m> {
    vcpu: &'m mut dyn Vcpu,
    pio: BusReader,
    mmio: BusReader,
    hypercall: BusReader,
    backlog: Backlog,
    entry: VmEntry,
}

impl<'m> Runner<'m> {
    pub(super) fn new(machine: &Machine, vcpu: &'m mut dyn Vcpu) -> Self {
        Self {
            vcpu,
            pio: machine.pio.reader(),
            mmio: machine.mmio.reader(),
            hypercall: machine.hypercall.reader(),
            backlog: machine.backlog.clone(),
            entry: VmEntry::Resume,
        }
    }

    /// Runs the vCPU until the program is done, halts or is kicked. Fails if the backend fails, or on a fault
    /// or an access of the guest to a system register.
    pub fn run(&mut self) -> Result<Stop, MachineError> {
        loop {
            while !self.backlog.is_empty() && !self.vcpu.is_kicked() {
                self.backlog.serve();
            }
            let entry = std::mem::take(&mut self.entry);
            let exit = self.vcpu.run(entry).map_err(MachineError::Vcpu)?;
            if let Some(code) = done(&exit) {
                return Ok(Stop::Done(code));
            }
            match exit {
                VmExit::PioOut { port, len, data } => {
                    self.pio.write(port.into(), bytes(&data.to_le_bytes(), len));
                }
                VmExit::PioIn { port, len } => self.entry = read(&mut self.pio, port.into(), len),
                VmExit::MmioWrite { address, len, data } => {
                    self.mmio.write(address, bytes(&data.to_le_bytes(), len));
                }
                VmExit::MmioRead { address, len } => {
                    self.entry = read(&mut self.mmio, address, len);
                }
                VmExit::Hypercall { number, argument } => {
                    let known = self.hypercall.write(number, &argument.to_le_bytes());
                    self.entry = VmEntry::Data(if known { 0 } else { ENOSYS });
                }
                VmExit::RegisterRead { index } | VmExit::RegisterWrite { index, .. } => {
                    return Err(MachineError::Register { index });
                }
                VmExit::Halt => return Ok(Stop::Halted),
                VmExit::Shutdown => return Ok(Stop::Shutdown),
                VmExit::Reset => return Ok(Stop::Reset),
                VmExit::Kicked => return Ok(Stop::Kicked),
                VmExit::Fault(fault) => return Err(MachineError::Fault(*fault)),
            }
        }
    }
}

/// The bytes of an access. No backend gives a length greater than that of the value; a greater one is cut.
#[inline]
fn bytes(value: &[u8], len: u8) -> &[u8] {
    &value[..usize::from(len).min(value.len())]
}

/// Reads from a bus. If no device answers, all bits are set.
#[inline]
fn read(bus: &mut BusReader, address: u64, len: u8) -> VmEntry {
    let mut value = [0xff; 8];
    let len = usize::from(len).min(value.len());
    if !bus.read(address, &mut value[..len]) {
        value = [0xff; 8];
    }
    VmEntry::Data(u64::from_le_bytes(value))
}
