//! The guest of a bare loop on x86-64.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, dword_ptr, dx, eax, qword_ptr, rbx, rcx, rdx};

use super::super::bare::COUNT;
use super::super::error::KvmError;
use crate::Error;
use crate::measure::BareExit;

/// The port and the address that the guest writes to.
const PORT: u64 = 0xc050;
pub const ADDRESS: u64 = 0xd000_0050;

/// The code of a guest that makes these exits forever, for the address `start`. One that rings leaves at the port when
/// it has rung [`COUNT`] times.
pub fn code(exit: BareExit, start: u64) -> Result<Vec<u8>, Error> {
    assemble(exit, start).map_err(KvmError::assemble("a loop"))
}

fn assemble(exit: BareExit, start: u64) -> Result<Vec<u8>, IcedError> {
    let mut code = CodeAssembler::new(64)?;
    let mut again = code.create_label();
    match exit {
        BareExit::Pio => {
            code.mov(rdx, PORT)?;
            code.set_label(&mut again)?;
            code.out(dx, eax)?;
        }
        BareExit::Mmio => {
            code.mov(rdx, ADDRESS)?;
            code.set_label(&mut again)?;
            code.mov(dword_ptr(rdx), eax)?;
        }
        BareExit::Ioeventfd => {
            let mut ring = code.create_label();
            code.mov(rbx, start + COUNT)?;
            code.set_label(&mut again)?;
            code.mov(rcx, qword_ptr(rbx))?;
            code.mov(rdx, ADDRESS)?;
            code.set_label(&mut ring)?;
            code.mov(dword_ptr(rdx), eax)?;
            code.dec(rcx)?;
            code.jnz(ring)?;
            code.mov(rdx, PORT)?;
            code.out(dx, eax)?;
        }
    }
    code.jmp(again)?;
    code.assemble(start)
}
