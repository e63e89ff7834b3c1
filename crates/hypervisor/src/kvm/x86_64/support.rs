//! The capabilities that depend on the architecture.
//!
//! One that only a guest can show is found by a trial: a guest runs once, on the calling thread, and a second thread
//! ends it after a time limit. All trial guests report to the same port.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use kvm_bindings::CpuId;
use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::irq::Irqchip;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::super::code::guest_code;
use super::super::system::System;
use super::super::vm::KvmVm;
use super::boot::with_hypercall;
use super::cpuid;
use crate::{
    Capability, EntryPoint, Error, IoEvents, Support, Vcpu, Vm, VmConfig, VmEntry, VmExit,
};

/// Returns whether the backend has `capability`, for capabilities that depend on the architecture.
pub fn support(system: &Arc<System>, capability: Capability) -> Support {
    match capability {
        Capability::CountsLightExits => light_exits(system),
        Capability::NativeKernelMode => native_kernel_mode(system),
        Capability::EndOfInterrupt => ends_of_interrupts(system),
        Capability::Virtualization if !has_virtualization(&system.host.cpuid) => Support::No(
            "kvm gives its guests neither SVM nor VMX: load kvm_amd or kvm_intel with nested=1"
                .to_owned(),
        ),
        Capability::HypercallExit if !system.host.hypercall_exits => {
            Support::No("this kernel sends no hypercall on to the VMM (Linux 5.14)".to_owned())
        }
        Capability::HypercallInstruction | Capability::HypercallExit => hypercalls(system),
        // Ports, kernels, virtualization and interrupts.
        _ => Support::Yes,
    }
}

/// Returns whether a CPUID shows VMX (Intel SDM 2A, CPUID.1) or SVM (AMD APM 3, CPUID 8000_0001h).
fn has_virtualization(cpuid: &CpuId) -> bool {
    let mut leaves = cpuid.as_slice().iter();
    leaves.any(|leaf| match leaf.function {
        1 => leaf.ecx & 1 << 5 != 0,
        0x8000_0001 => leaf.ecx & 1 << 2 != 0,
        _ => false,
    })
}

/// Returns whether a guest that executes the hypercall instruction continues after it; tried once.
fn hypercalls(system: &Arc<System>) -> Support {
    // The emulator patches the instruction and has the CPU execute it again, and emulates it again, forever.
    if !native_kernel_mode(system).is_yes() {
        return no(
            "the hypercall instruction never ends here: this kvm emulates the guest's kernel mode",
        );
    }
    let code = || with_hypercall(hypercall(), cpuid::has_vmmcall(&system.host.cpuid));
    let one = || Trial::new(system, Irqchip::None, &[], &code())?.run();
    let answer = system.host.hypercalls.get_or_init(|| match one() {
        Ok(VmExit::PioOut { .. }) => Support::Yes,
        Ok(VmExit::Kicked) => no("the hypercall instruction never ends here"),
        Ok(exit) => Support::No(format!("a hypercall made the guest leave with {exit:x?}")),
        Err(error) => untried(&error),
    });
    answer.clone()
}

/// Returns whether an interrupt stays in service until the guest's EOI; tried once.
fn ends_of_interrupts(system: &Arc<System>) -> Support {
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

/// Returns whether the kernel's statistics count the exits of a guest that rings an ioeventfd; tried once.
fn light_exits(system: &Arc<System>) -> Support {
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

/// Returns whether guest code in ring 0 runs on the CPU; tried once.
fn native_kernel_mode(system: &Arc<System>) -> Support {
    let one = || Trial::new(system, Irqchip::None, &[], unknown_to_emulators())?.run();
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

/// Returns the first exit of a guest that has rung an ioeventfd, and the number of exits that the kernel counted until
/// then, without this first exit to the VMM.
fn rings(system: &Arc<System>) -> Result<(VmExit, u64), Error> {
    let mut trial = Trial::new(system, Irqchip::None, &[], rings_code())?;
    let event = EventFd::new(EFD_NONBLOCK).map_err(Error::system("make an eventfd"))?;
    let _doorbell = trial.vm.register_ioevent(
        &Arc::new(event),
        IoEventAddress::Pio(BELL),
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

/// The time limit of a trial. On a KVM that has the capability, a guest needs microseconds, or a time slice on a busy
/// host.
const PATIENCE: Duration = Duration::from_millis(500);

/// A guest with one vCPU that has not run yet.
struct Trial {
    vm: KvmVm,
    vcpu: Box<dyn Vcpu>,
}

impl Trial {
    /// Makes a guest with this code and, unless it is empty, this interrupt handler.
    fn new(
        system: &Arc<System>,
        irqchip: Irqchip,
        handler: &[u8],
        code: &[u8],
    ) -> Result<Self, Error> {
        let config = VmConfig {
            ram_size: 4096,
            irqchip,
            ..VmConfig::default()
        };
        let bytes = [handler, code].concat();
        let start = config.ram_base + handler.len() as u64;
        let vm = KvmVm::new(Arc::clone(system), &config)?;
        let written = vm
            .memory()
            .write_slice(&bytes, GuestAddress(config.ram_base));
        written.map_err(|error| Error::System {
            operation: "write a guest that tries something",
            source: std::io::Error::other(error),
        })?;
        let mut vcpu = vm.create_vcpu(0)?;
        if !handler.is_empty() {
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
    fn run(&mut self) -> Result<VmExit, Error> {
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

/// The port that the guest reports to.
const PORT: u32 = 0x80;
/// The port of the doorbell, and how often the guest rings it.
const BELL: u16 = 0xc050;
const RINGS: u32 = 64;

/// The vector of the trial, and its bit in its word of the in-service register.
const VECTOR: u32 = 0x51;
const IN_SERVICE: u32 = 1 << (VECTOR % 32);

guest_code! {
    /// Makes an unknown hypercall, then writes a byte to a port.
    fn hypercall = vmbell_trial_hypercall..vmbell_trial_hypercall_end {
        "mov eax, -1",
        "vmcall",
        "mov edx, {port}",
        "out dx, al",
        ; port = const PORT,
    }
}

guest_code! {
    /// Interrupts its own vCPU and waits. The numbers are the local APIC's MSRs in x2APIC mode, which the code enables
    /// first (Intel SDM vol. 3, 13.12.1.2).
    fn interrupt = vmbell_trial_interrupt..vmbell_trial_interrupt_end {
        // The APIC base.
        "mov ecx, 0x1b",
        "rdmsr",
        "or eax, 0xc00",
        "wrmsr",
        // The spurious-interrupt vector register: enable the APIC.
        "mov edx, 0",
        "mov ecx, 0x80f",
        "mov eax, 0x1ff",
        "wrmsr",
        // The self IPI.
        "mov ecx, 0x83f",
        "mov eax, {vector}",
        "wrmsr",
        "sti",
        "2:",
        "pause",
        "jmp 2b",
        ; vector = const VECTOR,
    }
}

guest_code! {
    /// The handler: writes its word of the in-service register to a port.
    fn handler = vmbell_trial_handler..vmbell_trial_handler_end {
        "mov ecx, 0x810 + {vector} / 32",
        "rdmsr",
        "mov edx, {port}",
        "out dx, eax",
        ; vector = const VECTOR,
        port = const PORT,
    }
}

guest_code! {
    /// Writes to the doorbell's port, then a byte to the report port.
    fn rings_code = vmbell_trial_rings..vmbell_trial_rings_end {
        "mov edx, {bell}",
        "mov ecx, {rings}",
        "2:",
        "out dx, al",
        "dec ecx",
        "jnz 2b",
        "mov edx, {port}",
        "out dx, al",
        ; bell = const BELL,
        rings = const RINGS,
        port = const PORT,
    }
}

guest_code! {
    /// Executes an MMX addition, which every x86-64 CPU has but Linux's `arch/x86/kvm/emulate.c` does not emulate, then
    /// writes a byte to a port.
    fn unknown_to_emulators = vmbell_trial_unknown..vmbell_trial_unknown_end {
        "paddd mm0, mm0",
        "mov edx, {port}",
        "out dx, al",
        ; port = const PORT,
    }
}
