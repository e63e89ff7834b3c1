//! `cli`, `sti` and its interrupt shadow, and the window: the trap of a guest that unmasks while an interrupt
//! waits. All of it runs on the vCPU's thread.

use crate::elf::context::Context;
use crate::elf::direct;
use crate::elf::percpu::PerCpu;
use crate::sync::Ordering::Relaxed;

/// Bit 21 of the guest's flags (`ID`), used here as the interrupt mask: set means masked.
pub const MASKED: u64 = 1 << 21;
/// TF: the next instruction ends with #DB.
const TRAP: u64 = 1 << 8;

/// Whether the guest masks interrupts.
pub fn is_masked(frame: &Context) -> bool {
    frame.flags_register & MASKED != 0
}

/// A vCPU starts masked, as after a reset.
pub fn mask_at_start(frame: &mut Context) {
    frame.flags_register |= MASKED;
}

/// Handles `cli`.
pub fn mask(frame: &mut Context, cpu: &PerCpu) {
    frame.flags_register |= MASKED;
    super::count_light_exit(cpu);
}

/// Handles `sti`. If interrupts were masked, none comes before the guest has executed the instruction at `next`
/// (Intel SDM volume 2, STI), so that none can come between `sti` and `hlt`.
pub fn unmask(frame: &mut Context, cpu: &PerCpu, next: u64) {
    if is_masked(frame) {
        frame.flags_register &= !MASKED;
        cpu.shadow.store(next, Relaxed);
    }
    super::count_light_exit(cpu);
}

/// An interrupt is to be delivered. True if the guest has yet to execute the instruction behind its `sti`: then
/// the guest traps (TF) after that instruction.
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

/// The guest trapped, so the instruction behind `sti` has been executed or is being emulated. True if the trap
/// was only the #DB behind that instruction.
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

/// Notes whether an interrupt waits until the guest unmasks (`open`): if so, the interrupt-return entry traps.
/// A guest that is in that entry now starts it again.
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
