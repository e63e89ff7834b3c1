//! The code that lies ready for guest programs: the hypercall page and the exception handlers.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, cr2, ptr, qword_ptr, rax, rbx, rcx, rdi, rdx, rsi};
use stub::layout::HYPERCALL_PAGE;

use super::super::super::error::KvmError;
use super::super::super::system::HC_MAP_GPA_RANGE;
use super::HANDLERS;
use crate::hypervisor::Error;

/// How many vectors are exceptions.
pub const EXCEPTIONS: usize = 32;
/// Bytes of a handler.
const STRIDE: usize = 16;
/// Where all handlers go on, from the first one.
const COMMON: usize = EXCEPTIONS * STRIDE;
/// Zeroes, which `lidt` takes for an IDT of no gates.
const NO_GATES: usize = COMMON + 0x40;
/// Bytes of all that.
const SIZE: usize = NO_GATES + 16;
/// Where handlers of interrupts end, in the hypercall page.
const INTERRUPT_RETURN: usize = 0x40;

/// Calls the VMM with number `rdi` and argument `rsi`, and keeps all registers but `rax`.
///
/// The one hypercall that KVM sends on carries an address, which must be a page's, a number of
/// pages, and attributes that KVM does not look at: the number goes into the first, the argument
/// into the last.
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

/// Where the handler of an exception begins.
pub const fn handler(vector: u64) -> u64 {
    HANDLERS + vector * STRIDE as u64
}

/// Handlers that leave `[cr2, rax, vector, error code, rip, cs, rflags, rsp, ss]` on the stack and
/// then cause a triple fault, which is an exit that costs the others no comparison.
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

/// Where the thunk of an interrupt is, from the first one.
pub const fn thunk(vector: u64) -> u64 {
    (vector - EXCEPTIONS as u64) * STRIDE as u64
}

/// For each vector that is no exception's: push it, and on to the handler.
pub fn interrupt_thunks(start: u64, handler: u64) -> Result<Vec<u8>, Error> {
    let assemble = || -> Result<Vec<u8>, IcedError> {
        // Behind the last thunk, as far as an ordinary jump may not reach.
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

/// Intel SDM vol. 3, table 6-1.
const fn pushes_error_code(vector: i32) -> bool {
    matches!(vector, 8 | 10..=14 | 17 | 21 | 29 | 30)
}
