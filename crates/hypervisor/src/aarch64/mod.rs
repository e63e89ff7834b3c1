//! What the traits leave to the arm64 architecture. The backend and the guest programs follow it.
//!
//! A guest program runs at EL1 with SP_EL1, with the MMU and the caches on. The low 4 GiB are mapped at their own
//! addresses: RAM and everything below it as Normal memory, the rest as Device-nGnRnE. The program's two arguments are
//! in `x0` and `x1`. It may use the FP and SIMD registers. All maskable exceptions are initially masked.
//!
//! An interrupt handler finds `x16` and `x17` pushed on the current stack (`ldp x16, x17, [sp], #16` pops them) and
//! ends with `eret`. It acknowledges the interrupt itself, at the guest's interrupt controller. GSI `n` is the shared
//! peripheral interrupt with INTID `32 + n`.
//!
//! The hypercall page is called with the number in `x0` and the argument in `x1`; the result is in `x0`, and `x1` to
//! `x3`, `x16` and `x17` are lost. There are no ports. `wfi` does not exit to the VMM: the kernel puts the vCPU to
//! sleep until an interrupt comes.
//!
//! ```
//! use vmbell_hypervisor::aarch64::cpu_affinity;
//!
//! // Aff0 has 16 values.
//! assert_eq!(cpu_affinity(17), 1 << 8 | 1);
//! ```

use std::ops::Range;

/// The address to which a guest program stores four bytes when it is done; there are no ports.
pub const DONE_ADDRESS: u64 = 0xfff0_0000;

/// The RAM of an image that uses all of RAM. It begins at the same address as in QEMU's machine `virt`
/// (`hw/arm/virt.c`): some images expect devices below it.
pub const IMAGE_RAM: Range<u64> = 0x4000_0000..GICD;
/// The distributor of GICv2 and of GICv3.
pub const GICD: u64 = 0xfc00_0000;
/// The CPU interface of GICv2.
pub const GICC: u64 = 0xfc01_0000;
/// The redistributors of GICv3, [`GICR_SIZE`] bytes for each vCPU.
pub const GICR: u64 = 0xfc10_0000;
/// Size of one vCPU's redistributor, in bytes.
pub const GICR_SIZE: u64 = 0x2_0000;
/// The interrupt translation service (ITS) of GICv3. Its register GITS_TRANSLATER, to which messages are stored, is at
/// offset 0x1_0040.
pub const ITS: u64 = 0xfca0_0000;
/// INTID of the first private peripheral interrupt.
pub const FIRST_PPI: u32 = 16;
/// The private peripheral interrupt with which the controller asks a guest hypervisor at EL2 for its guests' next
/// interrupts.
pub const MAINTENANCE: u32 = 9;
/// INTID of the first shared peripheral interrupt, which is GSI 0.
pub const FIRST_SPI: u32 = 32;

/// Returns the affinity of the vCPU with this index, in the format of MPIDR_EL1 and PSCI (Linux
/// `arch/arm64/kvm/sys_regs.c`).
pub const fn cpu_affinity(index: u32) -> u32 {
    (index & 0xf) | (index >> 4 & 0xff) << 8
}

/// Returns the name of an exception class, and its meaning (Arm DDI 0487, ESR_EL1).
pub const fn exception(class: u8) -> (&'static str, &'static str) {
    match class {
        0x00 => ("Unknown", "invalid instruction"),
        0x01 => ("WFx", "a wait that is trapped"),
        0x07 => ("SIMD/FP", "SIMD or floating point is trapped"),
        0x0e => ("Illegal state", "illegal execution state"),
        0x15 => ("SVC", "a system call"),
        0x16 => ("HVC", "a hypercall"),
        0x17 => ("SMC", "a call of the secure monitor"),
        0x18 => (
            "System register",
            "an access to a system register that is trapped",
        ),
        INSTRUCTION_ABORT => ("Instruction abort", "no code is mapped there"),
        PC_ALIGNMENT => (
            "PC alignment",
            "the address of an instruction is not aligned",
        ),
        DATA_ABORT => (
            "Data abort",
            "no memory is mapped there, or the access is not aligned",
        ),
        0x26 => ("SP alignment", "the stack pointer is not aligned"),
        0x2c => ("Floating point", "a floating point exception"),
        SERROR => ("SError", "an asynchronous abort"),
        0x31 => ("Breakpoint", "a breakpoint"),
        0x33 => ("Software step", "a single step"),
        WATCHPOINT => ("Watchpoint", "a watchpoint"),
        0x3c => ("BRK", "a breakpoint instruction"),
        _ => ("exception", "unhandled exception"),
    }
}

/// Returns whether FAR_EL1 holds an address after an exception of this class.
pub const fn has_address(class: u8) -> bool {
    matches!(
        class,
        INSTRUCTION_ABORT | PC_ALIGNMENT | DATA_ABORT | WATCHPOINT
    )
}

/// Classes of exceptions taken from EL1.
const INSTRUCTION_ABORT: u8 = 0x21;
const PC_ALIGNMENT: u8 = 0x22;
const DATA_ABORT: u8 = 0x25;
const WATCHPOINT: u8 = 0x35;
/// The class of SErrors.
pub const SERROR: u8 = 0x2f;
