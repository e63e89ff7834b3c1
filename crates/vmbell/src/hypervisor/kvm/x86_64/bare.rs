//! Measures the least that an exit to the VMM costs: a loop around `KVM_RUN` that looks only at the exit's
//! reason. It runs on the thread that calls it.

use std::sync::Arc;

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, dword_ptr, dx, eax, rdx};
use kvm_ioctls::VcpuFd;
use vm_memory::{Bytes, GuestAddress};

use super::super::error::KvmError;
use super::super::ioctl;
use super::super::kick::Kicks;
use super::super::run_page::{Exit, RunPage};
use super::super::system::System;
use super::super::vm::KvmVm;
use super::{cpuid, entry};
use crate::hypervisor::{
    BareExit, BareLoop, CpuFeatures, EntryPoint, Error, Irqchip, Kick, Vm, VmConfig,
};

/// The port and the address that the guest writes to.
const PORT: u64 = 0xc050;
const ADDRESS: u64 = 0xd000_0050;

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
        let code = code(exit, start).map_err(KvmError::assemble("a loop"))?;
        let written = vm.memory().write_slice(&code, GuestAddress(start));
        written.map_err(|error| Error::System {
            operation: "write the loop",
            source: std::io::Error::other(error),
        })?;
        let fd = vm
            .descriptor()
            .create_vcpu(0)
            .map_err(Error::system("create a vcpu"))?;
        let offer = cpuid::Offer {
            index: 0,
            vcpus: 1,
            irqchip: Irqchip::None,
            pv_eoi: true,
            hidden: CpuFeatures::default(),
        };
        cpuid::set(&fd, &system.cpuid, offer)?;
        let begin = EntryPoint::Program {
            pc: start,
            sp: start + config.ram_size,
            arguments: [0, 0],
        };
        entry::set(&fd, &system.cpuid, 0, Irqchip::None, begin)?;
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

fn code(exit: BareExit, start: u64) -> Result<Vec<u8>, IcedError> {
    let mut code = CodeAssembler::new(64)?;
    let mut again = code.create_label();
    match exit {
        BareExit::Pio => {
            code.mov(rdx, PORT)?;
            code.set_label(&mut again)?;
            code.out(dx, eax)?;
        }
        BareExit::Mmio => {
            code.mov(rdx, ADDRESS)?;
            code.set_label(&mut again)?;
            code.mov(dword_ptr(rdx), eax)?;
        }
    }
    code.jmp(again)?;
    code.assemble(start)
}
