//! What only a guest can show: whether the CPU's hypercall instruction comes back.
//!
//! A KVM that is itself paravirtual may run the guest's kernel mode in an emulator, which executes
//! the instruction over and over.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, al, dx, eax, edx};
use vm_memory::{Bytes, GuestAddress};

use super::super::{EntryPoint, Kick, Support, Vcpu, Vm, VmConfig, VmEntry, VmExit};
use super::cpuid;
use super::error::KvmError;
use super::system::System;
use super::vm::KvmVm;

/// An honest guest needs microseconds, or a time slice on a busy host.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether a guest that makes a hypercall gets its answer; tried once.
pub fn hypercalls(system: &Arc<System>) -> Support {
    let answer = system.hypercalls.get_or_init(|| match one(system) {
        Ok(VmExit::PioOut { .. }) => Support::Yes,
        Ok(VmExit::Kicked) => Support::No(
            "the hypercall instruction never ends here: this kvm emulates the guest's kernel mode"
                .into(),
        ),
        Ok(exit) => Support::No(format!("a hypercall made the guest leave with {exit:x?}")),
        Err(error) => Support::No(format!("no guest could try it: {error}")),
    });
    answer.clone()
}

fn one(system: &Arc<System>) -> Result<VmExit, KvmError> {
    let config = VmConfig {
        ram_size: 4096,
        ..VmConfig::default()
    };
    let start = config.ram_base;
    let code = code(cpuid::has_vmmcall(&system.cpuid)).map_err(|source| KvmError::Assemble {
        what: "a hypercall",
        source,
    })?;
    let vm = KvmVm::new(Arc::clone(system), &config)?;
    let written = vm.memory().write_slice(&code, GuestAddress(start));
    written.map_err(|error| KvmError::Call {
        operation: "write a hypercall",
        source: std::io::Error::other(error),
    })?;
    let mut vcpu = vm.create_vcpu(0)?;
    vcpu.set_entry_point(EntryPoint::Long {
        rip: start,
        rsp: start + config.ram_size,
        rdi: 0,
        rsi: 0,
    })?;
    let (over, wait) = channel::<()>();
    let kick = vcpu.kick_handle();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Ends early when the other end is dropped.
            let _ = wait.recv_timeout(PATIENCE);
            kick.kick();
        });
        let exit = vcpu.run(VmEntry::Resume);
        drop(over);
        exit
    })
}

/// A hypercall that nobody knows, then a byte to a port.
fn code(vmmcall: bool) -> Result<Vec<u8>, IcedError> {
    let mut code = CodeAssembler::new(64)?;
    code.mov(eax, -1)?;
    if vmmcall {
        code.vmmcall()?;
    } else {
        code.vmcall()?;
    }
    code.mov(edx, 0x80)?;
    code.out(dx, al)?;
    code.assemble(VmConfig::default().ram_base)
}
