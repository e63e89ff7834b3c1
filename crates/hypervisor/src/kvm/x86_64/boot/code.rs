//! The code that the backend provides to guest programs: the hypercall page, the exception handlers and the interrupt
//! entries. Copied by the thread that creates the guest or sets an interrupt handler.
#![allow(unsafe_code)]

use super::super::super::code::guest_code;
use super::super::host::HC_MAP_GPA_RANGE;

/// Vectors below this number are exceptions.
pub const EXCEPTIONS: usize = 32;
/// Distance between two handlers in bytes.
const STRIDE: usize = 16;
/// The exceptions that push an error code, one bit each (Intel SDM vol. 3, table 6-1).
const ERROR_CODES: u32 = 1 << 8 | 0b11111 << 10 | 1 << 17 | 1 << 21 | 1 << 29 | 1 << 30;

guest_code! {
    /// The hypercall page: a function that calls the VMM with number `rdi` and argument `rsi` and preserves all
    /// registers except `rax`, and at offset 0x40 an `iretq` for interrupt handlers.
    ///
    /// The only hypercall that KVM forwards (KVM_HC_MAP_GPA_RANGE) has an address, which must be page-aligned, a number
    /// of pages, and attributes that KVM does not check. Our number is passed in the address, our argument in the
    /// attributes.
    fn page = vmbell_boot_hypercall..vmbell_boot_hypercall_end {
        "push rbx",
        "push rcx",
        "push rdx",
        "mov eax, {number}",
        "mov rbx, rdi",
        "shl rbx, 12",
        "mov ecx, 1",
        "mov rdx, rsi",
        "vmcall",
        "pop rdx",
        "pop rcx",
        "pop rbx",
        "ret",
        ".balign 64, 0xcc",
        "iretq",
        ; number = const HC_MAP_GPA_RANGE,
    }
}

/// Returns the bytes of the hypercall page.
pub fn hypercall_page(vmmcall: bool) -> Vec<u8> {
    with_hypercall(page(), vmmcall)
}

/// Returns the code, with Intel's hypercall instruction replaced by AMD's if `vmmcall`.
pub fn with_hypercall(code: &[u8], vmmcall: bool) -> Vec<u8> {
    const VMCALL: [u8; 3] = [0x0f, 0x01, 0xc1];
    const VMMCALL: [u8; 3] = [0x0f, 0x01, 0xd9];
    let mut code = code.to_vec();
    let place = code.windows(3).position(|bytes| bytes == VMCALL);
    if let Some(place) = place.filter(|_| vmmcall) {
        code[place..][..3].copy_from_slice(&VMMCALL);
    }
    code
}

/// Returns the offset of the handler of an exception.
pub const fn handler(vector: u64) -> u64 {
    vector * STRIDE as u64
}

guest_code! {
    /// The exception handlers. They leave `[cr2, rax, vector, error code, rip, cs, rflags, rsp, ss]` on the stack and
    /// then cause a triple fault, by an exception with an empty IDT. That exit has a distinct reason, so other exits do
    /// not have to check for it.
    pub fn handlers = vmbell_boot_handlers..vmbell_boot_handlers_end {
        ".set vmbell_boot_vector, 0",
        ".rept {exceptions}",
        ".if ({error_codes} >> vmbell_boot_vector) & 1 == 0",
        "push 0",
        ".endif",
        // `push` with the vector in one byte, encoded by hand: the assembler would take the symbol for a memory
        // operand.
        ".byte 0x6a, vmbell_boot_vector",
        "jmp 2f",
        ".set vmbell_boot_vector, vmbell_boot_vector + 1",
        ".balign 16, 0xcc",
        ".endr",
        "2:",
        "push rax",
        "mov rax, cr2",
        "push rax",
        "lidt [rip + 3f]",
        "ud2",
        ".balign 16, 0xcc",
        // An empty IDT.
        "3:",
        ".zero 16",
        ; exceptions = const EXCEPTIONS,
        error_codes = const ERROR_CODES,
    }
}

/// Returns the offset of a vector's interrupt entry from the first entry.
pub const fn thunk(vector: u64) -> u64 {
    (vector - EXCEPTIONS as u64) * STRIDE as u64
}

guest_code! {
    /// The entries of all vectors that are not exceptions: each pushes its vector and jumps to the address in the last
    /// eight bytes. A direct jump might not reach it.
    fn thunks = vmbell_boot_thunks..vmbell_boot_thunks_end {
        ".set vmbell_boot_vector, {exceptions}",
        ".rept 256 - {exceptions}",
        // `push` with the vector in four bytes, encoded by hand as above.
        ".byte 0x68",
        ".long vmbell_boot_vector",
        "jmp [rip + 2f]",
        ".set vmbell_boot_vector, vmbell_boot_vector + 1",
        ".balign 16, 0xcc",
        ".endr",
        "2:",
        ; exceptions = const EXCEPTIONS,
    }
}

/// Returns the interrupt entries, which jump to `handler`.
pub fn interrupt_thunks(handler: u64) -> Vec<u8> {
    [thunks(), &handler.to_le_bytes()].concat()
}
