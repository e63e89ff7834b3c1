//! Injects an interrupt into the guest, and decides when the guest can take it: it handles `cli`, `sti` with its
//! interrupt shadow, and the interrupt window, in which a guest traps when it unmasks while an interrupt waits. The
//! module also performs the return from the handler if that needs a trap.
//!
//! The frame is that of a 64-bit interrupt gate (Intel SDM volume 3, 6.14.2), with the vector pushed on top. The stub
//! writes it to the guest's stack on the vCPU's thread, so the stack pointer must be in RAM.

use super::eoi::{self, learn_from_injection};
use crate::elf::direct;
use crate::elf::entry::{Context, RSP};
use crate::elf::exit::{in_ram, report};
use crate::elf::kick::INTERRUPT;
use crate::elf::percpu::PerCpu;
use crate::layout::fault;
use vmbell_core::event::Event;
use vmbell_core::sync::Ordering::Relaxed;

/// The guest's selectors, those of 64-bit user code and data (Linux `asm/segment.h`).
const CODE: u64 = 0x33;
const STACK: u64 = 0x2b;

/// Bits of RFLAGS (Intel SDM volume 1, 3.4.3).
const TRAP: u64 = 1 << 8;
const INTERRUPTS: u64 = 1 << 9;
const NESTED: u64 = 1 << 14;
const RESUME: u64 = 1 << 16;
/// The flags that `iretq` in ring 3 restores: status flags, TF, DF, NT, RF, AC, ID.
const RESTORED: u64 = 0xcd5 | TRAP | NESTED | RESUME | 1 << 18 | MASKED;

/// Bytes below the stack pointer that the interrupted code may use (System V ABI, 3.2.2).
const RED_ZONE: u64 = 128;
/// Bytes of the frame: vector, `rip`, `cs`, flags, `rsp`, `ss`.
const FRAME: u64 = 6 * 8;
/// The end of the canonical addresses of user code, with four-level paging.
const CANONICAL_END: u64 = 1 << 47;

/// #SS.
const STACK_FAULT: u64 = 12;
/// #GP.
const GENERAL_PROTECTION: u64 = 13;

/// Delivers a pending interrupt if the guest can take one. Returns whether an interrupt waits until the guest
/// unmasks.
pub fn inject_pending(frame: &mut Context, cpu: &PerCpu) -> bool {
    let handler = cpu.interrupts().interrupt_handler.load(Relaxed);
    let lapic = cpu.lapic();
    let Some(vector) = lapic.next_interrupt() else {
        return false;
    };
    if handler == 0 {
        return false;
    }
    if is_masked(frame) {
        return true;
    }
    if direct::is_unfinished(frame.rip) {
        direct::defer(frame, cpu, INTERRUPT);
        return false;
    }
    if step_over_shadow(frame, cpu) {
        return false;
    }
    if !lapic.start_service(vector) {
        return false;
    }
    push_frame(frame, cpu, vector);
    frame.rip = handler;
    frame.flags_register = frame.flags_register & !(TRAP | NESTED | RESUME) | MASKED;
    super::count(cpu, Event::InjVirq);
    learn_from_injection(cpu);
    eoi::arm(cpu, vector);
    lapic.next_interrupt().is_some()
}

fn push_frame(frame: &mut Context, cpu: &PerCpu, vector: u8) {
    let rsp = *frame.register(RSP);
    let top = rsp.wrapping_sub(RED_ZONE) & !15;
    let place = top.wrapping_sub(FRAME);
    if !in_ram(place, FRAME) {
        frame.vector = STACK_FAULT;
        report(frame, cpu, fault::INTERRUPT_STACK);
    }
    let words = [
        u64::from(vector),
        frame.rip,
        CODE,
        frame.flags_register | INTERRUPTS,
        rsp,
        STACK,
    ];
    for (index, word) in (0u64..6).zip(words) {
        // SAFETY: `in_ram` found the frame in RAM, which stays mapped; other vCPUs may write it, hence volatile.
        // `place` is aligned to 16.
        unsafe { ((place + 8 * index) as *mut u64).write_volatile(word) };
    }
    *frame.register(RSP) = place;
}

/// Handles a trap of the interrupt-return entry: does what `iretq` does, and sets the interrupt mask from IF in the
/// frame, so that the next interrupt finds the guest in the state that the frame gives.
pub fn return_from_handler(frame: &mut Context, cpu: &PerCpu) {
    let place = *frame.register(RSP);
    let mut words = [0; 5];
    if !in_ram(place, size_of_val(&words) as u64) {
        frame.vector = STACK_FAULT;
        report(frame, cpu, fault::INTERRUPT_FRAME);
    }
    for (index, word) in (0u64..5).zip(&mut words) {
        // SAFETY: as in `push_frame`, but the guest may have misaligned the frame, hence the packed `Word`.
        *word = unsafe { ((place + 8 * index) as *const Word).read_volatile().0 };
    }
    let [rip, code, flags, rsp, stack] = words;
    if (code & 0xffff, stack & 0xffff) != (CODE, STACK) || rip >= CANONICAL_END {
        frame.vector = GENERAL_PROTECTION;
        report(frame, cpu, fault::INTERRUPT_FRAME);
    }
    let masked = if flags & INTERRUPTS == 0 { MASKED } else { 0 };
    frame.rip = rip;
    frame.flags_register = frame.flags_register & !RESTORED | flags & RESTORED | masked;
    *frame.register(RSP) = rsp;
    cpu.run().counters.windows.fetch_add(1, Relaxed);
    super::count_light_exit(cpu);
}

#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Word(u64);

/// Bit 21 of the guest's flags (`ID`), used here as the interrupt mask: set means masked.
pub const MASKED: u64 = 1 << 21;

/// Whether the guest masks interrupts.
pub fn is_masked(frame: &Context) -> bool {
    frame.flags_register & MASKED != 0
}

/// Masks interrupts when a vCPU starts, as after a reset.
pub fn mask_at_start(frame: &mut Context) {
    frame.flags_register |= MASKED;
}

/// Handles `cli`.
pub fn mask(frame: &mut Context, cpu: &PerCpu) {
    frame.flags_register |= MASKED;
    super::count_light_exit(cpu);
}

/// Handles `sti`. If interrupts were masked, none is delivered before the guest has executed the instruction at `next`
/// (Intel SDM volume 2, STI), so none can come between `sti` and `hlt`.
pub fn unmask(frame: &mut Context, cpu: &PerCpu, next: u64) {
    if is_masked(frame) {
        frame.flags_register &= !MASKED;
        cpu.shadow.store(next, Relaxed);
    }
    super::count_light_exit(cpu);
}

/// Called when an interrupt is to be delivered. Returns true if the guest has not yet executed the instruction after
/// its `sti`: then the guest traps (TF) after that instruction.
pub fn step_over_shadow(frame: &mut Context, cpu: &PerCpu) -> bool {
    if cpu.stepping.load(Relaxed) == 0 {
        let shadow = cpu.shadow.swap(0, Relaxed);
        if shadow == 0 || shadow != frame.rip {
            return false;
        }
        cpu.stepping.store(1, Relaxed);
        frame.flags_register |= TRAP;
    }
    true
}

/// Called when the guest has trapped: the instruction after `sti` has been executed or is being emulated. Returns true
/// if the trap was only the #DB after that instruction.
pub fn end_shadow(frame: &mut Context, cpu: &PerCpu) -> bool {
    const DEBUG: u64 = 1;
    cpu.shadow.store(0, Relaxed);
    if cpu.stepping.load(Relaxed) == 0 {
        return false;
    }
    cpu.stepping.store(0, Relaxed);
    frame.flags_register &= !TRAP;
    frame.vector == DEBUG
}

/// Notes whether an interrupt waits until the guest unmasks (`open`): if so, the interrupt-return entry traps. If the
/// guest is now inside that entry, it starts the entry again.
pub fn set_window(frame: &mut Context, cpu: &PerCpu, open: bool) {
    let open = u32::from(open);
    if cpu.window.load(Relaxed) != open {
        cpu.window.store(open, Relaxed);
        direct::count_window(open != 0);
    }
    if open != 0 {
        direct::rewind_return(frame);
    }
}
