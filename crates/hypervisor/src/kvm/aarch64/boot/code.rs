//! The code that the backend provides to guest programs: the hypercall page and the exception vectors. Read by the
//! thread that creates the guest.
#![allow(unsafe_code)]

use super::super::super::code::guest_code;
use super::super::exits::{ESCAPE, FIRST};

/// Offset in a page of vectors of the interrupt handler's address; 0 if there is no handler.
pub const HANDLER: usize = 0x800;
/// Offset in a page of vectors of the words that record a fault: the kind of the exception plus 1, ESR_EL1, ELR_EL1 and
/// FAR_EL1.
pub const WORDS: usize = 0x840;
/// The address to which a vector finally stores a pair of words. KVM cannot emulate the instruction, so the guest
/// leaves with an exit that has no other cause.
const NOWHERE: u64 = 0xfff1_0000;

guest_code! {
    /// The hypercall page: a function that calls the VMM with number x0 and argument x1, and clobbers x2, x16 and x17.
    /// The low bits of the function identifier are the number, or indicate that the number is in x2.
    pub fn hypercall_page = vmbell_boot_hypercall..vmbell_boot_hypercall_end {
        "mov x2, x0",
        "mov x16, {escape}",
        "cmp x0, x16",
        "csel x16, x0, x16, lo",
        "mov w17, {first}",
        "orr x0, x16, x17",
        "hvc #0",
        "ret",
        ; escape = const ESCAPE,
        first = const FIRST,
    }
}

guest_code! {
    /// A page of vectors. A vector records its exception and leaves the guest. The sixth vector, for interrupts taken
    /// from EL1 with SP_EL1, jumps to the handler if there is one. A vector that leaves need not preserve registers.
    pub fn vectors = vmbell_boot_vectors..vmbell_boot_vectors_end {
        ".set kind, 0",
        ".rept 16",
        ".if kind == 5",
        "stp x16, x17, [sp, #-16]!",
        "ldr x16, vmbell_boot_vectors + {handler}",
        "cbz x16, 1f",
        "br x16",
        "1:",
        ".endif",
        "mov x0, kind + 1",
        "b 2f",
        ".set kind, kind + 1",
        ".balign 128",
        ".endr",
        // The address of the interrupt handler, which the host writes.
        ".balign 64",
        ".zero 64",
        // The words.
        ".zero 64",
        "2:",
        "adr x1, vmbell_boot_vectors + {words}",
        "mrs x2, esr_el1",
        "mrs x3, elr_el1",
        "mrs x4, far_el1",
        "stp x0, x2, [x1]",
        "stp x3, x4, [x1, #16]",
        "mov x5, {nowhere}",
        "stp xzr, xzr, [x5]",
        "b .",
        ; handler = const HANDLER,
        words = const WORDS,
        nowhere = const NOWHERE,
    }
}
