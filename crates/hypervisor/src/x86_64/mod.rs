//! What the traits leave to the x86-64 architecture. Both backends and the guest programs follow it.
//!
//! A guest program's two arguments are in `rdi` and `rsi`. A system register is a model-specific register, so `rdmsr`
//! and `wrmsr` exit to the VMM.
//!
//! An interrupt handler finds the vector as one 64-bit word at `[rsp]`, above it the processor's ordinary 64-bit
//! frame (`rip`, `cs`, `rflags`, `rsp`, `ss`), and IF clear. It drops the vector and returns by a jump to
//! [`INTERRUPT_RETURN`] with `rsp` at the frame. `cli`, `sti` and `hlt` are ordinary instructions.
//!
//! ```
//! use vmbell_hypervisor::x86_64::{PAGE_FAULT, exception};
//!
//! assert_eq!(exception(PAGE_FAULT), "#PF");
//! ```

/// The address that an interrupt handler jumps to at its end: the code there does what `iretq` does.
pub const INTERRUPT_RETURN: u64 = vmbell_core::addresses::INTERRUPT_RETURN;

/// The port to which a guest program writes when it is done. In kvm-unit-tests it is QEMU's `isa-debug-exit`.
pub const DONE_PORT: u16 = 0xf4;

/// The vector of a page fault, the only exception for which the CPU reports an address.
pub const PAGE_FAULT: u8 = 14;

/// Returns the mnemonic of an exception vector (SDM volume 3, "Exception and Interrupt Reference").
pub const fn exception(vector: u8) -> &'static str {
    match vector {
        0 => "#DE",
        1 => "#DB",
        3 => "#BP",
        6 => "#UD",
        8 => "#DF",
        12 => "#SS",
        13 => "#GP",
        PAGE_FAULT => "#PF",
        16 => "#MF",
        17 => "#AC",
        19 => "#XM",
        _ => "exception",
    }
}
