//! Measures the least that an exit to the VMM costs: a loop around `KVM_RUN` that looks only at the exit's
//! reason. It runs on the thread that calls it.

use std::sync::Arc;

use kvm_ioctls::VcpuFd;
use vm_memory::{Bytes, GuestAddress};

use super::super::{BareExit, BareLoop, EntryPoint, Error, Kick, Vm, VmConfig};
use super::error::KvmError;
use super::kick::Kicks;
use super::run_page::{Exit, RunPage};
use super::system::System;
use super::vm::KvmVm;
use super::{arch, ioctl};

/// A guest that only makes exits, and the loop around it.
#[derive(Debug)]
pub struct Bare {
    fd: VcpuFd,
    page: Arc<RunPage>,
    kicks: Arc<Kicks>,
    // Holds the guest memory. It is declared after the vCPU, so it is dropped after it.
    _vm: KvmVm,
}

impl Bare {
    pub fn new(system: Arc<System>, exit: BareExit) -> Result<Self, Error> {
        let config = VmConfig {
            ram_size: 1 << 20,
            ..VmConfig::default()
        };
        let start = config.ram_base;
        let vm = KvmVm::new(Arc::clone(&system), &config)?;
        let code = arch::bare::code(exit, start)?;
        let written = vm.memory().write_slice(&code, GuestAddress(start));
        written.map_err(|error| Error::System {
            operation: "write the loop",
            source: std::io::Error::other(error),
        })?;
        let fd = arch::vm::vcpu(&vm.guest, 0)?;
        let begin = EntryPoint::Program {
            pc: start,
            sp: start + config.ram_size,
            arguments: [0, 0],
        };
        arch::entry::set(&fd, &vm.guest, 0, begin)?;
        let page = Arc::new(RunPage::new(&fd, system.run_size)?);
        Ok(Self {
            fd,
            kicks: Arc::new(Kicks::new(Arc::clone(&page))?),
            page,
            _vm: vm,
        })
    }
}

impl BareLoop for Bare {
    fn run(&mut self, exits: u64) -> Result<(), Error> {
        self.kicks.enter();
        let mut left = exits;
        while left > 0 {
            if let Err(error) = ioctl::run(&self.fd) {
                if error.kind() != std::io::ErrorKind::Interrupted {
                    return Err(Error::system("run the loop (KVM_RUN)")(error));
                }
                if self.kicks.answer() {
                    return Err(KvmError::Kicked { left, exits }.into());
                }
                continue;
            }
            match self.page.exit() {
                Exit::Io(_) | Exit::Mmio { .. } => left -= 1,
                exit => {
                    let exit = format!("{exit:?}");
                    return Err(KvmError::Strayed { exit }.into());
                }
            }
        }
        Ok(())
    }

    fn kick_handle(&self) -> Arc<dyn Kick> {
        Arc::clone(&self.kicks) as Arc<dyn Kick>
    }
}
