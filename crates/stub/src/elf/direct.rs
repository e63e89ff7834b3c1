//! Direct code: rings doorbells without a trap. The hypercall page and the trampolines of patched sites jump to it.
//!
//! This code runs on the guest's stack and with the guest's vector registers. So it must not use vector registers, call
//! anything outside its section, or find data through the stack pointer or the thread; a test checks the linked section
//! for that. A kick or an interrupt signal that arrives here is deferred until the check at the end of the code.
//!
//! The return from an interrupt handler is also here: `iretq`, or a trap if an interrupt waits until the guest unmasks.

use core::arch::global_asm;

use crate::elf::entry::{Context, RAX, RDI, RSI};
use crate::elf::exit::{heavy_exit, in_ram, report, ring_all, ring_in};
use crate::elf::interrupt;
use crate::elf::kick::KICK;
use crate::elf::percpu::{PerCpu, control, shared};
use crate::elf::trap::SIGTRAP;
use crate::layout::{GUEST_END, fault, reason};
use vmbell_core::addresses::PAGE;
use vmbell_core::event::Event;
use vmbell_core::sync::AtomicU32;
use vmbell_core::sync::Ordering::{Relaxed, SeqCst};
use vmbell_core::table::{Kind, Signals};

unsafe extern "C" {
    fn stub_direct_miss();
    fn stub_direct_check();
    fn stub_direct_check_end();
    fn stub_direct_deferred();
    fn stub_direct_return();
    fn stub_interrupt_return();
    fn stub_interrupt_window();
    fn stub_interrupt_return_end();
}

/// How many vCPUs have a deferred signal. Direct code traps at its end while this is not 0.
static DEFERRED: AtomicU32 = AtomicU32::new(0);

/// How many vCPUs have an interrupt that waits until they unmask. A handler's return traps while this is not 0: like
/// all direct code, a return cannot know on which vCPU it runs.
static WINDOWS: AtomicU32 = AtomicU32::new(0);

// The first three entries, HYPERCALL_ENTRY, PORT_ENTRY and STORE_ENTRY, are System V ABI functions, except that the
// guest's stack may be misaligned. HYPERCALL_ENTRY preserves rdi and rsi, because the trap of a miss reads them. The
// guest's direction flag is left as it is: there are no string instructions here, and a test checks that. The fourth
// entry, INTERRUPT_RETURN_ENTRY, changes only what `iretq` restores.
global_asm!(
    ".pushsection .text.vectors, \"ax\"",
    ".globl stub_hypercall, stub_port, stub_store, stub_direct_miss, stub_direct_check, stub_direct_check_end, stub_direct_deferred, stub_direct_return, stub_interrupt_return, stub_interrupt_window, stub_interrupt_return_end",
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
    // If a kick arrives between the comparison and `ret`, the code starts again here.
    "stub_direct_check:",
    "cmp dword ptr [rip + {deferred}], 0",
    "jne stub_direct_deferred",
    "stub_direct_return:",
    "ret",
    "stub_direct_check_end:",
    "stub_direct_deferred:",
    "int3",
    ".balign 64, 0xcc",
    "stub_store:",
    "push rbp",
    "mov rbp, rsp",
    "and rsp, -16",
    "call {store}",
    "mov rsp, rbp",
    "pop rbp",
    "jmp stub_direct_check",
    ".balign 64, 0xcc",
    // rsp points to rip, cs, flags, rsp, ss. If a signal arrives after the comparisons, the code starts again here.
    "stub_interrupt_return:",
    // If IF is clear in the flags of the frame, it must trap: `iretq` in ring 3 would not mask interrupts.
    "test byte ptr [rsp + 17], 2",
    "jz stub_interrupt_window",
    "cmp dword ptr [rip + {windows}], 0",
    "jne stub_interrupt_window",
    "iretq",
    "stub_interrupt_window:",
    "int3",
    "stub_interrupt_return_end:",
    ".popsection",
    hypercall = sym ring_hypercall,
    port = sym ring_port,
    store = sym ring_store,
    deferred = sym DEFERRED,
    windows = sym WINDOWS,
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

#[unsafe(link_section = ".text.direct.rust")]
#[inline(never)]
unsafe extern "C" fn ring_store(address: u64, width: u32, value: u64) -> u32 {
    if !is_doorbells_place(address, width) {
        return 1;
    }
    ring_direct(Kind::Mmio, address, width, value)
}

/// Whether a store there would trap once and be looked up among the doorbells, as in [`mmio`](crate::elf::mmio): it is
/// in one page below the end of guest addresses, and not to memory or a local APIC.
#[inline(always)]
fn is_doorbells_place(address: u64, width: u32) -> bool {
    let width = u64::from(width);
    let mut devices = control()
        .device_mappings
        .iter()
        .map(|device| (device.address.load(Relaxed), device.size.load(Relaxed)))
        .take_while(|(_, size)| *size != 0);
    address < GUEST_END
        && address % PAGE + width <= PAGE
        && !in_ram(address, width)
        && !(interrupt::has_lapics() && interrupt::is_lapic_page(address))
        && !devices.any(|(begin, size)| address.wrapping_sub(begin) < size)
}

#[inline(always)]
fn ring_direct(kind: Kind, address: u64, len: u32, value: u64) -> u32 {
    let shared = shared();
    let hit = ring_in(
        &shared.direct_sections,
        control(),
        kind,
        address,
        len,
        value,
        ring_list_or_miss,
    );
    u32::from(!hit)
}

/// Rings a list of doorbells or a doorbell with a payload, or counts a miss. Out of line, so that the usual case does
/// not have to save registers for it.
#[unsafe(link_section = ".text.direct.rust")]
#[inline(never)]
fn ring_list_or_miss(signals: Signals<'_>, value: u64, one: *const u64) {
    if signals.is_empty() {
        shared().direct_misses.fetch_add(1, Relaxed);
    }
    ring_all(signals, value, one);
}

unsafe extern "C" {
    // `stub.ld` defines these symbols around all of `.text.direct*`.
    static stub_direct_section: u8;
    static stub_direct_section_end: u8;
}

/// Whether `rip` is in direct code.
pub fn contains(rip: u64) -> bool {
    let begin = &raw const stub_direct_section as u64;
    let end = &raw const stub_direct_section_end as u64;
    (begin..end).contains(&rip)
}

/// Whether `rip` is in direct code before its end.
pub fn is_unfinished(rip: u64) -> bool {
    contains(rip) && rip != at(stub_direct_return) && !is_interrupt_return(rip)
}

/// Whether `rip` is in the return from a handler. That code opens no read-side section and can stop anywhere.
fn is_interrupt_return(rip: u64) -> bool {
    (at(stub_interrupt_return)..at(stub_interrupt_return_end)).contains(&rip)
}

fn at(label: unsafe extern "C" fn()) -> u64 {
    label as *const () as u64
}

/// Defers a signal that arrived in direct code: the code runs to its end and traps there.
pub fn defer(frame: &mut Context, cpu: &PerCpu, signal: u32) {
    if cpu.deferred_signals.fetch_or(signal, Relaxed) == 0 {
        DEFERRED.fetch_add(1, SeqCst);
    }
    if (at(stub_direct_check)..at(stub_direct_check_end)).contains(&frame.rip) {
        frame.rip = at(stub_direct_check);
    }
}

/// Counts the vCPUs with an interrupt that waits until they unmask: one more if `open`, otherwise one less.
pub fn count_window(open: bool) {
    if open {
        WINDOWS.fetch_add(1, SeqCst);
    } else {
        WINDOWS.fetch_sub(1, SeqCst);
    }
}

/// Makes a return from a handler start again, so that it sees [`WINDOWS`].
pub fn rewind_return(frame: &mut Context) {
    if is_interrupt_return(frame.rip) {
        frame.rip = at(stub_interrupt_return);
    }
}

/// Handles a trap in direct code: a hypercall that matches no doorbell, the end of the code with a deferred signal, a
/// return from a handler while an interrupt waits, or a fault on the guest's stack.
pub fn trap(signal: u32, frame: &mut Context, cpu: &PerCpu) {
    let site = frame.rip.wrapping_sub(1);
    if signal == SIGTRAP && site == at(stub_direct_miss) {
        let (number, argument) = (*frame.register(RDI), *frame.register(RSI));
        interrupt::count(cpu, Event::Hypercall);
        *frame.register(RAX) = heavy_exit(cpu, reason::HYPERCALL, site, number, 8, argument);
    } else if signal == SIGTRAP && site == at(stub_direct_deferred) {
        frame.rip = at(stub_direct_return);
        // The trap may be due to another vCPU's signal; if so, there is nothing to do.
        let deferred = cpu.deferred_signals.swap(0, Relaxed);
        if deferred != 0 {
            DEFERRED.fetch_sub(1, SeqCst);
            cpu.pending_signals.fetch_or(deferred & KICK, Relaxed);
        }
    } else if signal == SIGTRAP && site == at(stub_interrupt_window) && interrupt::has_lapics() {
        interrupt::return_from_handler(frame, cpu);
    } else {
        report(frame, cpu, fault::EXCEPTION);
    }
}
