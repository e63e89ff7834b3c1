//! The guest of a bare loop on x86-64.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, dword_ptr, dx, eax, rdx};

use super::super::error::KvmError;
use crate::hypervisor::{BareExit, Error};

/// The port and the address that the guest writes to.
const PORT: u64 = 0xc050;
const ADDRESS: u64 = 0xd000_0050;

/// The code of a guest that makes these exits for ever, for the address `start`.
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
    }
    code.jmp(again)?;
    code.assemble(start)
}
