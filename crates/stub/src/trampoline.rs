//! The jump that replaces an `out`, and the trampoline to which it leads ([`crate::layout::PATCH_BASE`]). Monitor and
//! stub must agree on the bytes of the jump and on the first instructions of the trampoline.
//!
//! The first instructions save registers below the guest's red zone, and read from where direct code will have its
//! frames. If the guest has no stack there, one of these instructions faults, and the stub undoes the others, on the
//! vCPU's thread.

/// The first byte of a jump (`jmp rel32`).
pub const JMP: u8 = 0xe9;

/// One-byte opcodes that are invalid in 64-bit mode (Intel SDM volume 2, table A-2). Where an instruction under a jump
/// begins, the jump's distance has one of these bytes.
pub const INVALID: [u8; 10] = [0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37];

/// The size of a trampoline in bytes.
pub const ROOM: u64 = 256;

/// The first instructions. The first one skips the red zone, 128 bytes below the stack pointer; the last one reads
/// below the frames of direct code.
pub const PROLOGUE: [u8; 27] = [
    0x48, 0x8d, 0x64, 0x24, 0x80, // lea rsp, [rsp - 128]
    0x9c, // pushfq
    0x50, 0x51, 0x52, 0x56, 0x57, // push rax, rcx, rdx, rsi, rdi
    0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53, // push r8, r9, r10, r11
    0x4c, 0x8b, 0x9c, 0x24, 0x00, 0xff, 0xff, 0xff, // mov r11, [rsp - 256]
];

/// The first instructions that can fault: the offset of each, and how far the stack pointer has moved down by then.
pub const STEPS: [(u64, u64); 11] = [
    (5, 128),
    (6, 136),
    (7, 144),
    (8, 152),
    (9, 160),
    (10, 168),
    (11, 176),
    (13, 184),
    (15, 192),
    (17, 200),
    (19, 208),
];
