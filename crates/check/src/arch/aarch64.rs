//! arm64: user space cannot set a flag that traps after one instruction. A copy of the instruction is executed instead,
//! followed by a breakpoint. Loads and stores of the shared memory do not depend on their own address.
#![allow(unsafe_code)]

use std::arch::asm;
use std::io;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use corosensei::trap::TrapHandlerRegs;

/// The instructions of a hook that pass its return address on as one more argument, after this number of others.
macro_rules! pass_return_address {
    (0) => {
        "mov x0, x30\nb {}"
    };
    (1) => {
        "mov x1, x30\nb {}"
    };
    (2) => {
        "mov x2, x30\nb {}"
    };
    (3) => {
        "mov x3, x30\nb {}"
    };
    (5) => {
        "mov x5, x30\nb {}"
    };
}
pub(crate) use pass_return_address;

/// `brk #0`.
const BREAKPOINT: u32 = 0xD420_0000;
/// The record of the exception syndrome in the context of a signal, and its bit for a store.
const SYNDROME: u32 = 0x4553_5201;
const STORE: u64 = 1 << 6;

/// The address of a page for the copy; 0 before the first exploration.
static COPY: AtomicUsize = AtomicUsize::new(0);
/// The instruction that is being stepped, or 0.
static STEPPED: AtomicUsize = AtomicUsize::new(0);

/// Maps the page that steps need, once for the process.
pub(crate) fn prepare() -> io::Result<()> {
    if COPY.load(Ordering::Relaxed) != 0 {
        return Ok(());
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice replaces no other. It is never unmapped.
    let page = unsafe { libc::mmap(ptr::null_mut(), 4096, protection, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    COPY.store(page.expose_provenance(), Ordering::Relaxed);
    Ok(())
}

fn address(value: libc::c_ulong) -> usize {
    usize::try_from(value).unwrap_or(0)
}

/// The address of the instruction that was interrupted.
pub(crate) fn instruction(context: &libc::ucontext_t) -> usize {
    let at = address(context.uc_mcontext.pc);
    match STEPPED.load(Ordering::Relaxed) {
        stepped if stepped != 0 && at == COPY.load(Ordering::Relaxed) => stepped,
        _ => at,
    }
}

pub(crate) fn stack_pointer(context: &libc::ucontext_t) -> usize {
    address(context.uc_mcontext.sp)
}

/// Whether the access that faulted is a store.
pub(crate) fn is_store(context: &libc::ucontext_t) -> bool {
    let registers = &raw const context.uc_mcontext;
    // The records follow `pstate`, at the next multiple of 16.
    let records = (offset_of!(libc::mcontext_t, pstate) + 8).next_multiple_of(16);
    let mut record = registers.wrapping_byte_add(records).cast::<u32>();
    let end = registers.wrapping_add(1).cast::<u32>();
    while record.wrapping_add(4) <= end {
        // SAFETY: the words are in the context that the kernel passed to the handler of the signal, which lives.
        let [magic, size] = unsafe { record.cast::<[u32; 2]>().read() };
        if magic == SYNDROME {
            // SAFETY: as above; the record has 16 bytes.
            let syndrome = unsafe { record.wrapping_add(2).cast::<u64>().read() };
            return syndrome & STORE != 0;
        }
        // The last record has no size.
        if size < 8 {
            break;
        }
        record = record.wrapping_byte_add(usize::try_from(size).unwrap_or(0));
    }
    false
}

/// Lets the interrupted instruction execute, and raises SIGTRAP after it.
pub(crate) fn begin_step(context: &mut libc::ucontext_t) {
    let at = address(context.uc_mcontext.pc);
    let copy = COPY.load(Ordering::Relaxed);
    STEPPED.store(at, Ordering::Relaxed);
    // SAFETY: the instruction has just faulted, so that it is mapped.
    let instruction = unsafe { ptr::with_exposed_provenance::<u32>(at).read_volatile() };
    let to = ptr::with_exposed_provenance_mut::<[u32; 2]>(copy);
    // SAFETY: `prepare` mapped the page at `copy` for as long as the process lives, and only this handler writes to it, on
    // the one thread that explores.
    unsafe { to.write_volatile([instruction, BREAKPOINT]) };
    // SAFETY: it flushes the two instructions at `copy`, which share one cache line, so that the new ones are executed.
    unsafe {
        asm!(
            "dc cvau, {at}", "dsb ish", "ic ivau, {at}", "dsb ish", "isb",
            at = in(reg) copy,
            options(nostack, preserves_flags),
        );
    }
    context.uc_mcontext.pc = copy as libc::c_ulong;
}

/// Ends a step at its SIGTRAP. False if this signal does not end a step.
pub(crate) fn end_step(context: &mut libc::ucontext_t) -> bool {
    let copy = COPY.load(Ordering::Relaxed);
    if copy == 0 || address(context.uc_mcontext.pc) != copy + 4 {
        return false;
    }
    let stepped = STEPPED.swap(0, Ordering::Relaxed);
    context.uc_mcontext.pc = (stepped + 4) as libc::c_ulong;
    true
}

/// Continues in a function of corosensei instead of the interrupted code.
pub(crate) fn divert(context: &mut libc::ucontext_t, to: &TrapHandlerRegs) {
    STEPPED.store(0, Ordering::Relaxed);
    let registers = &mut context.uc_mcontext;
    registers.pc = to.pc;
    registers.sp = to.sp;
    registers.regs[0] = to.x0;
    registers.regs[1] = to.x1;
    registers.regs[29] = to.x29;
    registers.regs[30] = to.lr;
}
