//! Exits of x86-64: the calls of the hypercall page as KVM forwards them, and the names of the reasons.
//!
//! A call's arguments and its result are in the run page; the thread of the vCPU uses them. The reasons have the
//! numbers that the tracepoint `kvm_exit` has and the names that the kernel prints (Linux
//! `arch/x86/include/uapi/asm/vmx.h` and `svm.h`). Those that a guest meets often are listed; the rest is the
//! difference to all exits.

use kvm_ioctls::VcpuFd;

use super::super::run_page::{Call, RunPage};
use super::cpuid;
use super::host::Host;
use crate::Error;

/// The number and the argument of the call, which `boot/` passes as an address and as attributes.
#[allow(
    clippy::unnecessary_wraps,
    reason = "other architectures read registers"
)]
#[inline]
pub const fn decode(_: &VcpuFd, call: &Call) -> Result<[u64; 2], Error> {
    Ok([call.arguments[0] >> 12, call.arguments[2]])
}

/// Stores the return value of the call.
#[allow(
    clippy::unnecessary_wraps,
    reason = "other architectures write registers"
)]
#[inline]
pub fn answer(_: &VcpuFd, page: &RunPage, result: u64) -> Result<(), Error> {
    page.answer_hypercall(result);
    Ok(())
}

/// Intel's (SDM volume 3, appendix C).
const VMX: [(u32, &str); 17] = [
    (0, "EXCEPTION_NMI"),
    (1, "EXTERNAL_INTERRUPT"),
    (7, "INTERRUPT_WINDOW"),
    (10, "CPUID"),
    (12, "HLT"),
    (18, "VMCALL"),
    (28, "CR_ACCESS"),
    (30, "IO_INSTRUCTION"),
    (31, "MSR_READ"),
    (32, "MSR_WRITE"),
    (40, "PAUSE_INSTRUCTION"),
    (44, "APIC_ACCESS"),
    (45, "EOI_INDUCED"),
    (48, "EPT_VIOLATION"),
    (49, "EPT_MISCONFIG"),
    (52, "PREEMPTION_TIMER"),
    (56, "APIC_WRITE"),
];

/// AMD's (APM volume 2, appendix C).
const SVM: [(u32, &str); 13] = [
    (0x60, "interrupt"),
    (0x61, "nmi"),
    (0x64, "vintr"),
    (0x72, "cpuid"),
    (0x77, "pause"),
    (0x78, "hlt"),
    (0x7b, "io"),
    (0x7c, "msr"),
    (0x7f, "shutdown"),
    (0x81, "hypercall"),
    (0x400, "npf"),
    (0x401, "avic_incomplete_ipi"),
    (0x402, "avic_unaccelerated_access"),
];

/// The field of the tracepoint that has the reason.
pub const FIELD: &str = "exit_reason";

/// The statistic of the exits for interrupts of the host, which are part of all exits.
pub const HOST_INTERRUPTS: Option<&str> = Some("irq_exits");

/// The reasons of the host's CPU.
pub fn exit_reasons(host: &Host) -> &'static [(u32, &'static str)] {
    if cpuid::has_vmmcall(&host.cpuid) {
        &SVM
    } else {
        &VMX
    }
}
