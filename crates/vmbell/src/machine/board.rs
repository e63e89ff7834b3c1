//! The machine: one guest and three address spaces of devices.

use std::sync::Arc;

use vm_memory::{Bytes, GuestMemoryError};

use super::layout::{CODE, PARAMETERS, STACK_TOP};
use super::runner::Runner;
use crate::bus::{Backlog, Bus};
use crate::guest::{Interrupts, Parameters, Program, Results};
use crate::hypervisor::{EntryPoint, Error, Fault, Vm};

/// Why a guest could not go on.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The backend failed.
    #[error("the vcpu could not run")]
    Vcpu(#[source] Error),
    /// The guest faulted.
    #[error("guest fault: {0}")]
    Fault(Fault),
    /// The guest accessed a model-specific register that the machine does not have.
    #[error("the guest accessed msr {index:#x}, which this machine does not have")]
    Msr {
        /// The register.
        index: u32,
    },
    /// A thread of the machine could not start.
    #[error("cannot start a thread for the machine")]
    Thread {
        /// Why.
        source: std::io::Error,
    },
    /// The program or its parameters do not fit in RAM.
    #[error("cannot access guest memory for program {program}")]
    Memory {
        /// Which.
        program: &'static str,
        /// Why.
        source: GuestMemoryError,
    },
}

/// A guest with its devices.
#[derive(Debug)]
pub struct Machine<V: Vm> {
    vm: Arc<V>,
    /// Devices on ports.
    pub pio: Arc<Bus>,
    /// Devices on guest-physical addresses.
    pub mmio: Arc<Bus>,
    /// Devices on hypercall numbers.
    pub hypercall: Arc<Bus>,
    /// What the devices leave to the vCPUs' exit loops. While all vCPUs are out of their loops, or in the
    /// guest, it waits.
    pub backlog: Backlog,
}

impl<V: Vm> Machine<V> {
    /// A guest with no program and no devices.
    pub fn new(vm: V) -> Self {
        Self {
            vm: Arc::new(vm),
            pio: Arc::default(),
            mmio: Arc::default(),
            hypercall: Arc::default(),
            backlog: Backlog::default(),
        }
    }

    /// The guest; a device that has doorbells or irqs of its own keeps a clone.
    pub const fn vm(&self) -> &Arc<V> {
        &self.vm
    }

    /// Copies a program into the guest, and says where the vCPU with this index begins with it.
    pub fn load(&self, program: Program, vcpu: u32) -> Result<EntryPoint, MachineError> {
        let write = self.vm.memory().write_slice(program.code, CODE);
        write.map_err(|source| MachineError::Memory {
            program: program.name,
            source,
        })?;
        let sp = STACK_TOP.0 + 0x1_0000 * u64::from(vcpu);
        Ok(EntryPoint::Program {
            pc: CODE.0,
            sp,
            arguments: [PARAMETERS.0, vcpu.into()],
        })
    }

    /// Tells the program what to do in its next run.
    pub fn set_parameters(&self, parameters: &Parameters) -> Result<(), MachineError> {
        parameters
            .write(self.vm.memory(), PARAMETERS)
            .map_err(|source| MachineError::Memory {
                program: "parameters",
                source,
            })
    }

    /// Tells a program that takes interrupts how; before its first run.
    pub fn set_interrupts(&self, interrupts: &Interrupts) -> Result<(), MachineError> {
        interrupts
            .write(self.vm.memory(), PARAMETERS)
            .map_err(|source| MachineError::Memory {
                program: "parameters",
                source,
            })
    }

    /// What the program reported.
    pub fn results(&self) -> Result<Results, MachineError> {
        Results::read(self.vm.memory(), PARAMETERS).map_err(|source| MachineError::Memory {
            program: "results",
            source,
        })
    }

    /// A runner for one vCPU, for the thread that will run it.
    pub fn runner<'m>(&'m self, vcpu: &'m mut V::Vcpu) -> Runner<'m, V> {
        Runner::new(self, vcpu)
    }
}
