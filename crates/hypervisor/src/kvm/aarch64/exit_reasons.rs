//! The reasons for which a vCPU leaves the guest, by the numbers that the tracepoint `kvm_exit` has and by the names
//! that the kernel prints (Linux arch/arm64/include/asm/esr.h). Those that a guest meets again and again are listed;
//! the rest is the difference to all exits.

use super::host::Host;

/// The field of the tracepoint that has the class of the exception.
pub const FIELD: &str = "esr_ec";

/// The kernel does not count the exits for interrupts of the host, so all exits contain them.
pub const HOST_INTERRUPTS: Option<&str> = None;

/// 0 stands for every exit that is no exception: interrupts, of the host and for the end of the guest's.
const CLASSES: [(u32, &str); 6] = [
    (0x00, "IRQ"),
    (0x01, "WFx"),
    (0x16, "HVC64"),
    (0x18, "SYS64"),
    (0x20, "IABT_LOW"),
    (0x24, "DABT_LOW"),
];

/// The reasons, which all CPUs share.
pub const fn exit_reasons(_: &Host) -> &'static [(u32, &'static str)] {
    &CLASSES
}
