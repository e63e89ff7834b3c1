//! The guest of a trial.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use vm_memory::{Bytes, GuestAddress};

use super::super::super::error::KvmError;
use super::super::super::system::System;
use super::super::super::vm::KvmVm;
use super::code::Code;
use crate::{EntryPoint, Error, Irqchip, Vcpu, Vm, VmConfig, VmEntry, VmExit};

/// The time limit of a trial. A guest on a KVM that has the capability needs microseconds, or a time slice on a
/// busy host.
const PATIENCE: Duration = Duration::from_millis(500);

/// A guest with one vCPU that has not run yet.
pub struct Trial {
    pub vm: KvmVm,
    vcpu: Box<dyn Vcpu>,
}

impl Trial {
    /// A guest with this code and, if given, this interrupt handler.
    pub fn new(
        system: &Arc<System>,
        irqchip: Irqchip,
        handler: Option<Code>,
        code: Code,
    ) -> Result<Self, Error> {
        let config = VmConfig {
            ram_size: 4096,
            irqchip,
            ..VmConfig::default()
        };
        let has_handler = handler.is_some();
        let mut bytes = match handler {
            Some(handler) => assemble(handler, config.ram_base)?,
            None => Vec::new(),
        };
        let start = config.ram_base + bytes.len() as u64;
        bytes.extend(assemble(code, start)?);
        let vm = KvmVm::new(Arc::clone(system), &config)?;
        let written = vm
            .memory()
            .write_slice(&bytes, GuestAddress(config.ram_base));
        written.map_err(|error| Error::System {
            operation: "write a guest that tries something",
            source: std::io::Error::other(error),
        })?;
        let mut vcpu = vm.create_vcpu(0)?;
        if has_handler {
            vcpu.set_interrupt_handler(config.ram_base)?;
        }
        vcpu.set_entry_point(EntryPoint::Program {
            pc: start,
            sp: config.ram_base + config.ram_size,
            arguments: [0, 0],
        })?;
        Ok(Self { vm, vcpu })
    }

    /// Runs the guest until its first exit or the time limit.
    pub fn run(&mut self) -> Result<VmExit, Error> {
        let (over, wait) = channel::<()>();
        let kick = self.vcpu.kick_handle();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // Ends early when `over` is dropped.
                let _ = wait.recv_timeout(PATIENCE);
                kick.kick();
            });
            let exit = self.vcpu.run(VmEntry::Resume);
            drop(over);
            exit
        })
    }
}

fn assemble(code: Code, start: u64) -> Result<Vec<u8>, Error> {
    code.and_then(|mut code| code.assemble(start))
        .map_err(KvmError::assemble("a guest that tries something"))
}
