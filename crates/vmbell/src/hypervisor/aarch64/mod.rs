//! What the traits leave to the architecture, for arm64: the backend and the guest programs follow it.
//!
//! A guest program runs at EL1 with SP_EL1, with the MMU and the caches on. The low 4 GiB are mapped at their own
//! addresses: RAM and what lies below it as Normal memory, all else as Device-nGnRnE. Its two arguments are in `x0`
//! and `x1`. It may use the registers of FP and SIMD. All exceptions that can be masked are masked at first.
//!
//! An interrupt handler finds `x16` and `x17` pushed on the stack in force (`ldp x16, x17, [sp], #16` takes them
//! back) and ends with `eret`. It acknowledges the interrupt itself, at the interrupt controller that there is. GSI
//! `n` is the shared peripheral interrupt with INTID `32 + n`.
//!
//! There are no ports. `wfi` does not leave to the VMM: the kernel puts the vCPU to sleep until an interrupt comes.

/// The distributor of either version.
pub const GICD: u64 = 0xfc00_0000;
/// The CPU interface of GICv2.
pub const GICC: u64 = 0xfc01_0000;
/// The redistributors of GICv3, [`GICR_SIZE`] bytes for each vCPU.
pub const GICR: u64 = 0xfc10_0000;
/// Size of one vCPU's redistributor, in bytes.
pub const GICR_SIZE: u64 = 0x2_0000;
/// The interrupt translation service of GICv3; its GITS_TRANSLATER, to which messages are stored, is 0x1_0040 bytes
/// above.
pub const ITS: u64 = 0xfc80_0000;
/// INTID of the first shared peripheral interrupt, that of GSI 0.
pub const FIRST_SPI: u32 = 32;
