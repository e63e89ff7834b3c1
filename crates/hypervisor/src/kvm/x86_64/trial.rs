//! Trials of capabilities that only a guest can show: the guest, its code, and the run. A trial runs on the thread that
//! asks; a second thread ends it after a time limit. All guests of trials report to the same port.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, al, dx, eax, ecx, edx, mm0};
use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::super::error::KvmError;
use super::super::system::System;
use super::super::vm::KvmVm;
use super::cpuid;
use crate::{EntryPoint, Error, IoEvents, Irqchip, Support, Vcpu, Vm, VmConfig, VmEntry, VmExit};

/// Whether a guest that executes the hypercall instruction continues after it; tried once.
pub fn hypercalls(system: &Arc<System>) -> Support {
    // The emulator patches the instruction and has the CPU execute it again, and emulates it again, forever.
    if !native_kernel_mode(system).is_yes() {
        return no(
            "the hypercall instruction never ends here: this kvm emulates the guest's kernel mode",
        );
    }
    let code = || hypercall(cpuid::has_vmmcall(&system.host.cpuid));
    let one = || Trial::new(system, Irqchip::None, None, code())?.run();
    let answer = system.host.hypercalls.get_or_init(|| match one() {
        Ok(VmExit::PioOut { .. }) => Support::Yes,
        Ok(VmExit::Kicked) => no("the hypercall instruction never ends here"),
        Ok(exit) => Support::No(format!("a hypercall made the guest leave with {exit:x?}")),
        Err(error) => untried(&error),
    });
    answer.clone()
}

/// Whether an interrupt stays in service until the guest's EOI; tried once.
pub fn ends_of_interrupts(system: &Arc<System>) -> Support {
    let handler = || Some(handler());
    let one = || Trial::new(system, Irqchip::Full, handler(), interrupt())?.run();
    let answer = system.host.ends_of_interrupts.get_or_init(|| match one() {
        Ok(VmExit::PioOut { data, .. }) if data & IN_SERVICE != 0 => Support::Yes,
        Ok(VmExit::PioOut { .. }) => no(
            "an interrupt ends here when it is delivered: this kvm does not wait for the guest's EOI",
        ),
        Ok(VmExit::Kicked) => no("a vcpu's interrupt to itself never came"),
        Ok(exit) => Support::No(format!("an interrupt made the guest leave with {exit:x?}")),
        Err(error) => untried(&error),
    });
    answer.clone()
}

/// Whether the kernel's statistics count the exits of a guest that rings an ioeventfd; tried once.
pub fn light_exits(system: &Arc<System>) -> Support {
    let answer = system.host.light_exits.get_or_init(|| match rings(system) {
        Ok((VmExit::PioOut { .. }, counted)) if counted >= RINGS.into() => Support::Yes,
        Ok((VmExit::PioOut { .. }, counted)) => Support::No(format!(
            "{RINGS} writes to an ioeventfd are {counted} exits in this kvm's statistics"
        )),
        Ok((VmExit::Kicked, _)) => no("a guest that rings never came to its end"),
        Ok((exit, _)) => Support::No(format!("a ring made the guest leave with {exit:x?}")),
        Err(error) => untried(&error),
    });
    answer.clone()
}

/// Whether guest code of ring 0 runs on the CPU; tried once.
pub fn native_kernel_mode(system: &Arc<System>) -> Support {
    let one = || Trial::new(system, Irqchip::None, None, unknown_to_emulators())?.run();
    let answer = system.host.native_kernel_mode.get_or_init(|| match one() {
        Ok(VmExit::PioOut { .. }) => Support::Yes,
        Ok(VmExit::Fault(_)) => no(
            "this kvm runs ring 0 in its instruction emulator, which does not know an instruction that the cpu has",
        ),
        Ok(exit) => Support::No(format!("code of ring 0 made the guest leave with {exit:x?}")),
        Err(error) => untried(&error),
    });
    answer.clone()
}

/// The first exit of a guest that rings an ioeventfd before it, and the exits that the kernel counted until then
/// without the one to the VMM.
fn rings(system: &Arc<System>) -> Result<(VmExit, u64), Error> {
    let mut trial = Trial::new(system, Irqchip::None, None, rings_code())?;
    let event = EventFd::new(EFD_NONBLOCK).map_err(Error::system("make an eventfd"))?;
    let _doorbell = trial.vm.register_ioevent(
        &Arc::new(event),
        IoEventAddress::Pio(BELL.into()),
        Datamatch::AnyLength,
        Sharing::Exclusive,
    )?;
    let exit = trial.run()?;
    let [light, _] = trial.vm.exits();
    Ok((exit, light))
}

fn no(reason: &str) -> Support {
    Support::No(reason.to_owned())
}

fn untried(error: &Error) -> Support {
    Support::No(format!("no guest could try it: {error}"))
}

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

/// Code that has not been placed at an address yet.
pub type Code = Result<CodeAssembler, IcedError>;

/// The port that the guest reports to.
const PORT: i32 = 0x80;
/// The port that the guest rings, and how often.
pub const BELL: u16 = 0xc050;
pub const RINGS: u32 = 64;

/// The vector of the trial, and its bit in its word of the in-service register.
const VECTOR: i32 = 0x51;
pub const IN_SERVICE: u32 = 1 << (VECTOR % 32);
/// The MSRs of that word and of other registers of the local APIC in x2APIC mode (Intel SDM vol. 3, 13.12.1.2).
const SERVICE_WORD: i32 = 0x810 + VECTOR / 32;
const APIC_BASE: i32 = 0x1b;
const SPURIOUS: i32 = 0x80f;
const SELF_IPI: i32 = 0x83f;

/// Guest code: an unknown hypercall, then a byte to a port.
pub fn hypercall(vmmcall: bool) -> Code {
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
pub fn interrupt() -> Code {
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
pub fn handler() -> Code {
    let mut code = CodeAssembler::new(64)?;
    code.mov(ecx, SERVICE_WORD)?;
    code.rdmsr()?;
    code.mov(edx, PORT)?;
    code.out(dx, eax)?;
    Ok(code)
}

/// Guest code: writes to the doorbell's port, then a byte to a port.
pub fn rings_code() -> Code {
    let mut code = CodeAssembler::new(64)?;
    code.mov(edx, i32::from(BELL))?;
    code.mov(ecx, RINGS)?;
    let mut again = code.create_label();
    code.set_label(&mut again)?;
    code.out(dx, al)?;
    code.dec(ecx)?;
    code.jnz(again)?;
    code.mov(edx, PORT)?;
    code.out(dx, al)?;
    Ok(code)
}

/// Guest code: an addition of MMX, which every x86-64 CPU has and Linux's `arch/x86/kvm/emulate.c` does not, then a
/// byte to a port.
pub fn unknown_to_emulators() -> Code {
    let mut code = CodeAssembler::new(64)?;
    code.paddd(mm0, mm0)?;
    code.mov(edx, PORT)?;
    code.out(dx, al)?;
    Ok(code)
}
