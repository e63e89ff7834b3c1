//! Rings that do not trap: the hypercall page and the trampolines of patched sites come straight here.
//!
//! This code runs on the guest's stack and with the guest's vector registers, so it must use none
//! of those, call nothing outside its section, and find nothing by stack or thread: a test holds
//! the finished section to that. A kick that lands here is deferred to the check at the end.

use core::arch::global_asm;

use crate::context::{Context, RAX, RDI, RSI};
use crate::doorbell::{ring_all, ring_in};
use crate::fault::report;
use crate::layout::{fault, reason};
use crate::percpu::{PerCpu, control, shared};
use crate::pio::heavy;
use crate::sync::AtomicU32;
use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::table::{Kind, Signals};
use crate::trap::SIGTRAP;

unsafe extern "C" {
    fn stub_direct_miss();
    fn stub_direct_check();
    fn stub_direct_check_end();
    fn stub_direct_kick();
    fn stub_direct_return();
}

/// How many vCPUs have a kick deferred. Direct code traps at its end while it is not 0.
static DEFERRED: AtomicU32 = AtomicU32::new(0);

// The two entries keep all that they do not return; the guest's stack may be misaligned. The
// guest's flags stay, the direction flag too: there are no string instructions here, and the test
// looks for them. Arguments are those of HYPERCALL_ENTRY and PORT_ENTRY, which are these addresses.
global_asm!(
    ".pushsection .text.vectors, \"ax\"",
    ".globl stub_hypercall, stub_port, stub_direct_miss, stub_direct_check, stub_direct_check_end, stub_direct_kick, stub_direct_return",
    "stub_hypercall:",
    "push rbp",
    "mov rbp, rsp",
    "push rdi",
    "push rsi",
    "and rsp, -16",
    "call {hypercall}",
    "lea rsp, [rbp - 16]",
    "pop rsi",
    "pop rdi",
    "pop rbp",
    "test eax, eax",
    "jz stub_direct_check",
    "stub_direct_miss:",
    "int3",
    "jmp stub_direct_check",
    ".balign 64, 0xcc",
    "stub_port:",
    "push rbp",
    "mov rbp, rsp",
    "and rsp, -16",
    "call {port}",
    "mov rsp, rbp",
    "pop rbp",
    // A kick between the look and the return makes the look happen again.
    "stub_direct_check:",
    "cmp dword ptr [rip + {deferred}], 0",
    "jne stub_direct_kick",
    "stub_direct_return:",
    "ret",
    "stub_direct_check_end:",
    "stub_direct_kick:",
    "int3",
    ".popsection",
    hypercall = sym ring_hypercall,
    port = sym ring_port,
    deferred = sym DEFERRED,
);

#[unsafe(link_section = ".text.direct.rust")]
#[inline(never)]
unsafe extern "C" fn ring_hypercall(number: u64, argument: u64) -> u32 {
    ring_direct(Kind::Hypercall, number, 8, argument)
}

#[unsafe(link_section = ".text.direct.rust")]
#[inline(never)]
unsafe extern "C" fn ring_port(port: u64, width: u32, value: u64) -> u32 {
    ring_direct(Kind::Pio, port, width, value)
}

#[inline(always)]
fn ring_direct(kind: Kind, address: u64, len: u32, value: u64) -> u32 {
    let shared = shared();
    let hit = ring_in(
        &shared.direct,
        control(),
        kind,
        address,
        len,
        value,
        ring_rare,
    );
    u32::from(!hit)
}

/// Out of line, so that the usual case saves no registers for it.
#[unsafe(link_section = ".text.direct.rust")]
#[inline(never)]
fn ring_rare(signals: Signals<'_>, one: *const u64) {
    if signals.is_empty() {
        shared().direct_misses.fetch_add(1, Relaxed);
    }
    ring_all(signals, one);
}

unsafe extern "C" {
    // Set by stub.ld around all of `.text.direct*`.
    static stub_direct_section: u8;
    static stub_direct_section_end: u8;
}

/// Whether this is direct code.
pub fn contains(rip: u64) -> bool {
    let begin = &raw const stub_direct_section as u64;
    let end = &raw const stub_direct_section_end as u64;
    (begin..end).contains(&rip)
}

/// Whether this is direct code that has not come to its end.
pub fn is_inside(rip: u64) -> bool {
    contains(rip) && rip != at(stub_direct_return)
}

fn at(label: unsafe extern "C" fn()) -> u64 {
    label as *const () as u64
}

/// A kick landed in direct code: let it finish, and trap at its end.
pub fn defer_kick(frame: &mut Context, cpu: &PerCpu) {
    if cpu.deferred.swap(1, Relaxed) == 0 {
        DEFERRED.fetch_add(1, SeqCst);
    }
    if (at(stub_direct_check)..at(stub_direct_check_end)).contains(&frame.rip) {
        frame.rip = at(stub_direct_check);
    }
}

/// Direct code trapped: a miss, the end with a kick waiting, or a guest stack that is none.
pub fn trap(signal: u32, frame: &mut Context, cpu: &PerCpu) {
    let site = frame.rip.wrapping_sub(1);
    if signal == SIGTRAP && site == at(stub_direct_miss) {
        let (number, argument) = (*frame.register(RDI), *frame.register(RSI));
        *frame.register(RAX) = heavy(cpu, reason::HYPERCALL, site, number, 8, argument);
    } else if signal == SIGTRAP && site == at(stub_direct_kick) {
        frame.rip = at(stub_direct_return);
        // Another vCPU's kick may have brought us here; then there is nothing to do.
        if cpu.deferred.swap(0, Relaxed) != 0 {
            DEFERRED.fetch_sub(1, SeqCst);
            cpu.kick.store(1, Relaxed);
        }
    } else {
        report(frame, cpu, fault::PLAIN);
    }
}
