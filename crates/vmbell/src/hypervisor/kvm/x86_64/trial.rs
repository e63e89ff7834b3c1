//! Trials of capabilities that only a guest can show: whether the CPU's hypercall instruction returns, and
//! whether an interrupt is in service while its handler runs (Intel SDM vol. 3, 13.8.4).
//!
//! A KVM that is itself paravirtual may run the guest's kernel mode in an emulator, which executes the
//! hypercall instruction over and over, and may end an interrupt itself when it delivers it. A trial runs on
//! the thread that asks; a second thread ends it after a time limit.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, al, dx, eax, ecx, edx};
use vm_memory::{Bytes, GuestAddress};

use super::super::error::KvmError;
use super::super::system::System;
use super::super::vm::KvmVm;
use super::cpuid;
use crate::hypervisor::{EntryPoint, Error, Irqchip, Support, Vcpu, Vm, VmConfig, VmEntry, VmExit};

/// The time limit of a trial. A guest on a KVM that has the capability needs microseconds, or a time slice on a
/// busy host.
const PATIENCE: Duration = Duration::from_millis(500);

/// The vector of the trial, and its bit in its word of the in-service register.
const VECTOR: i32 = 0x51;
const IN_SERVICE: u32 = 1 << (VECTOR % 32);
/// The MSRs of that word and of other registers of the local APIC in x2APIC mode (Intel SDM vol. 3, 13.12.1.2).
const SERVICE_WORD: i32 = 0x810 + VECTOR / 32;
const APIC_BASE: i32 = 0x1b;
const SPURIOUS: i32 = 0x80f;
const SELF_IPI: i32 = 0x83f;
/// The port that the guest reports to.
const PORT: i32 = 0x80;

/// Whether a guest that executes the hypercall instruction goes on behind it; tried once.
pub fn hypercalls(system: &Arc<System>) -> Support {
    let one = || run(system, None, hypercall(cpuid::has_vmmcall(&system.cpuid)));
    let answer = system.hypercalls.get_or_init(|| match one() {
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

/// Whether an interrupt stays in service until the guest's EOI; tried once.
pub fn ends_of_interrupts(system: &Arc<System>) -> Support {
    let one = || run(system, Some(handler()), interrupt());
    let answer = system.ends_of_interrupts.get_or_init(|| match one() {
        Ok(VmExit::PioOut { data, .. }) if data & IN_SERVICE != 0 => Support::Yes,
        Ok(VmExit::PioOut { .. }) => Support::No(
            "an interrupt ends here when it is delivered: this kvm does not wait for the guest's EOI"
                .into(),
        ),
        Ok(VmExit::Kicked) => Support::No("a vcpu's interrupt to itself never came".into()),
        Ok(exit) => Support::No(format!("an interrupt made the guest leave with {exit:x?}")),
        Err(error) => Support::No(format!("no guest could try it: {error}")),
    });
    answer.clone()
}

type Code = Result<CodeAssembler, IcedError>;

/// Runs a guest with this code and, if given, this interrupt handler, until its first exit or the time limit.
fn run(system: &Arc<System>, handler: Option<Code>, code: Code) -> Result<VmExit, Error> {
    let config = VmConfig {
        ram_size: 4096,
        irqchip: match handler {
            Some(_) => Irqchip::Full,
            None => Irqchip::None,
        },
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
    let (over, wait) = channel::<()>();
    let kick = vcpu.kick_handle();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Ends early when `over` is dropped.
            let _ = wait.recv_timeout(PATIENCE);
            kick.kick();
        });
        let exit = vcpu.run(VmEntry::Resume);
        drop(over);
        exit
    })
}

/// Guest code: an unknown hypercall, then a byte to a port.
fn hypercall(vmmcall: bool) -> Code {
    let mut code = CodeAssembler::new(64)?;
    code.mov(eax, -1)?;
    if vmmcall {
        code.vmmcall()?;
    } else {
        code.vmcall()?;
    }
    code.mov(edx, PORT)?;
    code.out(dx, al)?;
    Ok(code)
}

/// Guest code: the vCPU interrupts itself and waits.
fn interrupt() -> Code {
    let mut code = CodeAssembler::new(64)?;
    code.mov(ecx, APIC_BASE)?;
    code.rdmsr()?;
    // Enables the local APIC in x2APIC mode.
    code.or(eax, 0xc00)?;
    code.wrmsr()?;
    code.mov(edx, 0)?;
    for (register, value) in [(SPURIOUS, 0x1ff), (SELF_IPI, VECTOR)] {
        code.mov(ecx, register)?;
        code.mov(eax, value)?;
        code.wrmsr()?;
    }
    code.sti()?;
    let mut again = code.create_label();
    code.set_label(&mut again)?;
    code.pause()?;
    code.jmp(again)?;
    Ok(code)
}

/// Guest code: the handler, which writes its word of the in-service register to a port.
fn handler() -> Code {
    let mut code = CodeAssembler::new(64)?;
    code.mov(ecx, SERVICE_WORD)?;
    code.rdmsr()?;
    code.mov(edx, PORT)?;
    code.out(dx, eax)?;
    Ok(code)
}

fn assemble(code: Code, start: u64) -> Result<Vec<u8>, Error> {
    code.and_then(|mut code| code.assemble(start))
        .map_err(KvmError::assemble("a guest that tries something"))
}
