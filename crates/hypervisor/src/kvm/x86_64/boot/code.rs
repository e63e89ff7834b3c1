//! Assembles the code that the backend gives guest programs: the hypercall page, the exception handlers and the
//! entries of interrupts. Runs on the thread that creates the guest or sets an interrupt handler.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, cr2, ptr, qword_ptr, rax, rbx, rcx, rdi, rdx, rsi};
use stub::layout::HYPERCALL_PAGE;

use super::super::super::error::KvmError;
use super::super::host::HC_MAP_GPA_RANGE;
use super::HANDLERS;
use crate::Error;

/// The vectors below this number are exceptions.
pub const EXCEPTIONS: usize = 32;
/// Distance between two handlers, in bytes.
const STRIDE: usize = 16;
/// Offset of the code that all handlers jump to.
const COMMON: usize = EXCEPTIONS * STRIDE;
/// Offset of zero bytes, which `lidt` takes as an IDT without gates.
const NO_GATES: usize = COMMON + 0x40;
/// Size of all handlers in bytes.
const SIZE: usize = NO_GATES + 16;
/// Offset in the hypercall page of the instruction that ends interrupt handlers.
const INTERRUPT_RETURN: usize = 0x40;

/// The bytes of the hypercall page: a function that calls the VMM with number `rdi` and argument `rsi` and
/// keeps all registers but `rax`, and an `iretq` for interrupt handlers.
///
/// The only hypercall that KVM forwards (KVM_HC_MAP_GPA_RANGE) has an address, which must be page-aligned, a
/// number of pages, and attributes that KVM does not check. The number is passed in the address, the argument
/// in the attributes.
pub fn hypercall_page(vmmcall: bool) -> Result<Vec<u8>, Error> {
    let assemble = || -> Result<Vec<u8>, IcedError> {
        let mut code = CodeAssembler::new(64)?;
        for register in [rbx, rcx, rdx] {
            code.push(register)?;
        }
        code.mov(rax, HC_MAP_GPA_RANGE)?;
        code.mov(rbx, rdi)?;
        code.shl(rbx, 12)?;
        code.mov(rcx, 1_u64)?;
        code.mov(rdx, rsi)?;
        if vmmcall {
            code.vmmcall()?;
        } else {
            code.vmcall()?;
        }
        for register in [rdx, rcx, rbx] {
            code.pop(register)?;
        }
        code.ret()?;
        let mut page = code.assemble(HYPERCALL_PAGE)?;
        let mut code = CodeAssembler::new(64)?;
        code.iretq()?;
        page.resize(INTERRUPT_RETURN, 0xcc);
        page.extend(code.assemble(HYPERCALL_PAGE + INTERRUPT_RETURN as u64)?);
        Ok(page)
    };
    assemble().map_err(KvmError::assemble("the hypercall page"))
}

/// The address of the handler of an exception.
pub const fn handler(vector: u64) -> u64 {
    HANDLERS + vector * STRIDE as u64
}

/// The exception handlers. They leave `[cr2, rax, vector, error code, rip, cs, rflags, rsp, ss]` on the stack
/// and then cause a triple fault. That exit has its own reason, so the other exits need no comparison to
/// tell it apart.
pub fn handlers() -> Result<Vec<u8>, Error> {
    let assemble = || -> Result<Vec<u8>, IcedError> {
        let mut bytes = vec![0; SIZE];
        let mut place = |offset: usize, mut code: CodeAssembler| {
            let code = code.assemble(HANDLERS + offset as u64)?;
            bytes[offset..][..code.len()].copy_from_slice(&code);
            Ok::<(), IcedError>(())
        };
        for (vector, offset) in (0..).zip((0..COMMON).step_by(STRIDE)) {
            let mut code = CodeAssembler::new(64)?;
            if !pushes_error_code(vector) {
                code.push(0)?;
            }
            code.push(vector)?;
            code.jmp(HANDLERS + COMMON as u64)?;
            place(offset, code)?;
        }
        let mut code = CodeAssembler::new(64)?;
        code.push(rax)?;
        code.mov(rax, cr2)?;
        code.push(rax)?;
        code.lidt(ptr(HANDLERS + NO_GATES as u64))?;
        code.ud2()?;
        place(COMMON, code)?;
        Ok(bytes)
    };
    assemble().map_err(KvmError::assemble("the exception handlers"))
}

/// Offset of the entry of an interrupt vector from the first one.
pub const fn thunk(vector: u64) -> u64 {
    (vector - EXCEPTIONS as u64) * STRIDE as u64
}

/// The entries of all vectors that are not exceptions: each pushes its vector and jumps to `handler`.
pub fn interrupt_thunks(start: u64, handler: u64) -> Result<Vec<u8>, Error> {
    let assemble = || -> Result<Vec<u8>, IcedError> {
        // The pointer is after the last entry. The jump is indirect because a direct one might not reach the
        // handler.
        let pointer = start + thunk(256);
        let mut bytes = Vec::new();
        for vector in (0..256).skip(EXCEPTIONS) {
            let mut code = CodeAssembler::new(64)?;
            code.push(vector)?;
            code.jmp(qword_ptr(pointer))?;
            let at = bytes.len();
            bytes.extend(code.assemble(start + at as u64)?);
            bytes.resize(at + STRIDE, 0xcc);
        }
        bytes.extend(handler.to_le_bytes());
        Ok(bytes)
    };
    assemble().map_err(KvmError::assemble("the entries of interrupts"))
}

/// Whether the exception pushes an error code (Intel SDM vol. 3, table 6-1).
const fn pushes_error_code(vector: i32) -> bool {
    matches!(vector, 8 | 10..=14 | 17 | 21 | 29 | 30)
}
