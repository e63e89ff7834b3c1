//! x86-64: the trap flag single-steps an instruction.

use std::io;

use corosensei::trap::TrapHandlerRegs;

/// The trap flag raises a trap after one instruction. The direction flag is clear where a function begins.
const TRAP: i64 = 0x100;
const DIRECTION: i64 = 0x400;

/// The instructions of a hook that pass its return address on as one more argument, after this number of others.
macro_rules! pass_return_address {
    (0) => {
        "mov rdi, [rsp]\njmp {}"
    };
    (1) => {
        "mov rsi, [rsp]\njmp {}"
    };
    (2) => {
        "mov rdx, [rsp]\njmp {}"
    };
    (3) => {
        "mov rcx, [rsp]\njmp {}"
    };
    (5) => {
        "mov r9, [rsp]\njmp {}"
    };
}
pub(crate) use pass_return_address;

/// Does nothing: steps need no preparation.
pub(crate) fn prepare() -> io::Result<()> {
    Ok(())
}

fn register(context: &mut libc::ucontext_t, name: i32) -> &mut i64 {
    &mut context.uc_mcontext.gregs[name.cast_unsigned() as usize]
}

fn address(value: i64) -> usize {
    usize::try_from(value.cast_unsigned()).unwrap_or(0)
}

/// The address of the instruction that was interrupted.
pub(crate) fn instruction(context: &mut libc::ucontext_t) -> usize {
    address(*register(context, libc::REG_RIP))
}

pub(crate) fn stack_pointer(context: &mut libc::ucontext_t) -> usize {
    address(*register(context, libc::REG_RSP))
}

/// Whether the access that faulted is a store.
pub(crate) fn is_store(context: &mut libc::ucontext_t) -> bool {
    *register(context, libc::REG_ERR) & 2 != 0
}

/// Lets the interrupted instruction execute, and raises SIGTRAP after it.
pub(crate) fn begin_step(context: &mut libc::ucontext_t) {
    *register(context, libc::REG_EFL) |= TRAP;
}

/// Ends a step at its SIGTRAP. False if this signal does not end a step.
pub(crate) fn end_step(context: &mut libc::ucontext_t) -> bool {
    let flags = register(context, libc::REG_EFL);
    let stepped = *flags & TRAP != 0;
    *flags &= !TRAP;
    stepped
}

/// Continues in a function of corosensei instead of the interrupted code.
pub(crate) fn divert(context: &mut libc::ucontext_t, to: &TrapHandlerRegs) {
    *register(context, libc::REG_EFL) &= !(TRAP | DIRECTION);
    for (name, value) in [
        (libc::REG_RIP, to.rip),
        (libc::REG_RSP, to.rsp),
        (libc::REG_RBP, to.rbp),
        (libc::REG_RDI, to.rdi),
        (libc::REG_RSI, to.rsi),
    ] {
        *register(context, name) = value.cast_signed();
    }
}
