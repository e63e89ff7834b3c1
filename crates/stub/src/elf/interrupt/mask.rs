//! `cli`, `sti` and its shadow, and the window for what waits until the guest unmasks.

use crate::elf::context::Context;
use crate::elf::direct;
use crate::elf::percpu::PerCpu;
use crate::sync::Ordering::Relaxed;

/// The bit of the flags that says that interrupts are masked: `ID`.
pub const MASKED: u64 = 1 << 21;
/// TF: #DB after the next instruction.
const TRAP: u64 = 1 << 8;

/// Whether the guest cannot be interrupted.
pub fn is_masked(frame: &Context) -> bool {
    frame.flags_register & MASKED != 0
}

/// A vCPU starts masked, as after a reset.
pub fn mask_at_start(frame: &mut Context) {
    frame.flags_register |= MASKED;
}

/// `cli`.
pub fn mask(frame: &mut Context, cpu: &PerCpu) {
    frame.flags_register |= MASKED;
    super::answered(cpu);
}

/// `sti`: no interrupt comes before the instruction at `next` has been executed, if there was a
/// change (Intel SDM volume 2, STI). So nothing can come between `sti` and `hlt`.
pub fn unmask(frame: &mut Context, cpu: &PerCpu, next: u64) {
    if is_masked(frame) {
        frame.flags_register &= !MASKED;
        cpu.shadow.store(next, Relaxed);
    }
    super::answered(cpu);
}

/// An interrupt is to be delivered: true if the guest has yet to execute the instruction behind its
/// `sti`, which it is then made to trap after.
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

/// The guest trapped, so the instruction behind `sti` is past or is being emulated. True if all that
/// trapped was the end of that instruction.
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

/// Whether an interrupt waits for the guest to unmask: if so, the interrupt-return entry traps.
/// A guest that is just there looks again.
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
