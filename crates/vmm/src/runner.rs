//! The exit loop: runs one vCPU on the thread that owns it, answers its exits from the buses, and decides about those
//! that no device answers.

use super::stop::{Stop, done};
use super::{Machine, MachineError};
use vmbell_hypervisor::{Buses, Vcpu, VmEntry, VmExit};

/// ENOSYS, Linux's return value for an unknown hypercall.
const ENOSYS: u64 = 38_u64.wrapping_neg();

/// The exit loop of one vCPU, with a reader of each bus for its thread.
#[derive(Debug)]
pub struct Runner<'m> {
    vcpu: &'m mut dyn Vcpu,
    buses: Buses,
    entry: VmEntry,
}

impl<'m> Runner<'m> {
    pub(super) fn new(machine: &Machine, vcpu: &'m mut dyn Vcpu) -> Self {
        let buses = Buses {
            pio: machine.pio.reader(),
            mmio: machine.mmio.reader(),
            hypercall: machine.hypercall.reader(),
            backlog: machine.backlog.clone(),
        };
        Self {
            vcpu,
            buses,
            entry: VmEntry::Resume,
        }
    }

    /// Runs the vCPU until the program is done, halts or is kicked. Fails if the backend fails, or on a fault
    /// or an access of the guest to a system register.
    ///
    /// A read that no device answers has all bits set, and a write is ignored.
    pub fn run(&mut self) -> Result<Stop, MachineError> {
        loop {
            let entry = std::mem::take(&mut self.entry);
            let exit = self.vcpu.serve(entry, &mut self.buses);
            let exit = exit.map_err(MachineError::Vcpu)?;
            if let Some(code) = done(&exit) {
                return Ok(Stop::Done(code));
            }
            match exit {
                VmExit::PioOut { .. } | VmExit::MmioWrite { .. } => {}
                VmExit::PioIn { .. } | VmExit::MmioRead { .. } => {
                    self.entry = VmEntry::Data(u64::MAX);
                }
                VmExit::Hypercall { .. } => self.entry = VmEntry::Data(ENOSYS),
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
