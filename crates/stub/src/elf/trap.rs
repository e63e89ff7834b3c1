//! The handler for all signals of a vCPU thread. Most of the signals are exits of the guest.

use core::mem::offset_of;

use crate::elf::entry::{Context, RSP, stub_start};
use crate::elf::exit::{await_entry, report};
use crate::elf::fetch::redirect;
use crate::elf::percpu::{PerCpu, control};
use crate::elf::syscall::exit_group;
use crate::elf::{direct, interrupt, kick, mmio, pio};
use crate::layout::{GUEST_END, exit_code, fault, reason};
use vmbell_core::sync::Ordering::Relaxed;

pub const SIGILL: u32 = 4;
pub const SIGTRAP: u32 = 5;
pub const SIGBUS: u32 = 7;
pub const SIGFPE: u32 = 8;
pub const SIGUSR1: u32 = 10;
pub const SIGSEGV: u32 = 11;
pub const SIGUSR2: u32 = 12;
pub const SIGSYS: u32 = 31;

const GENERAL_PROTECTION: u64 = 13;
const PAGE_FAULT: u64 = 14;
const BREAKPOINT: u64 = 3;

const _: () = assert!(
    offset_of!(Context, fp_state) == 224,
    "struct ucontext of x86-64"
);

/// Called by the entry code, on the signal stack of the vCPU to which `cpu` belongs.
///
/// # Safety
/// `context` is the kernel's frame for `signal`, and `cpu` is the slot of this thread.
pub unsafe extern "C" fn stub_trap(signal: u32, context: *mut Context, cpu: *const PerCpu) {
    // SAFETY: the slot stays mapped, and its fields that change are atomic.
    let cpu = unsafe { &*cpu };
    // SAFETY: the kernel's frame on this vCPU's signal stack; nothing else refers to the frame until the exit sequence
    // has left it.
    let frame = unsafe { &mut *context };
    let rip = frame.rip;
    if rip >= GUEST_END && !direct::contains(rip) {
        match signal {
            SIGUSR1 | SIGUSR2 => kick::handle_in_stub(signal, context, cpu),
            SIGILL if rip == stub_start as *const () as u64 => enter_first(frame, cpu),
            _ => exit_group(exit_code::STUB_FAULT + (signal & 0x3f).cast_signed()),
        }
    } else if !frame.is_64_bit() {
        report_wrong_mode(signal, frame, cpu)
    } else if interrupt::leave(signal, frame, cpu) {
        // `interrupt::enter` below does the rest.
    } else if signal == SIGUSR1 {
        kick::handle_in_guest(frame, cpu);
    } else if rip < GUEST_END {
        handle_guest_trap(signal, frame, cpu);
    } else {
        direct::trap(signal, frame, cpu);
    }
    interrupt::enter(frame, cpu);
}

/// The guest has left 64-bit mode, the only mode that the stub can return to: reports a fault.
#[cold]
fn report_wrong_mode(signal: u32, frame: &mut Context, cpu: &PerCpu) -> ! {
    let _ = interrupt::leave(signal, frame, cpu);
    frame.vector = GENERAL_PROTECTION;
    report(frame, cpu, fault::CODE_SEGMENT)
}

/// Handles a trap of a guest instruction.
fn handle_guest_trap(signal: u32, frame: &mut Context, cpu: &PerCpu) {
    if matches!(signal, SIGSEGV | SIGBUS)
        && let Some(site) = leave_trampoline(frame)
    {
        pio::ask(cpu, reason::UNPATCH, site);
        return;
    }
    match (signal, frame.vector) {
        (SIGSEGV, GENERAL_PROTECTION) => pio::emulate(frame, cpu, None),
        (SIGSEGV, PAGE_FAULT) => mmio::emulate(frame, cpu),
        (SIGTRAP, BREAKPOINT) => {
            let site = frame.rip.wrapping_sub(1);
            frame.rip = site;
            match control().patches.int3_sites.get(site) {
                Some(original) => pio::emulate(frame, cpu, Some((original & 0xff) as u8)),
                None => report(frame, cpu, fault::EXCEPTION),
            }
        }
        (SIGILL, _) => match redirect(frame.rip) {
            Some(copy) => {
                cpu.run().counters.redirects.fetch_add(1, Relaxed);
                let target = frame.rip;
                frame.rip = copy;
                // If the guest keeps branching into a patch, the patch costs more than it saves.
                pio::count_site_trap(cpu, target);
            }
            None if control().patches.is_undone(frame.rip, &cpu.undone_patches) => {}
            None => report(frame, cpu, fault::EXCEPTION),
        },
        (SIGSYS, _) => {
            // The kernel has already stepped over the two-byte instruction.
            frame.rip = frame.rip.wrapping_sub(2);
            frame.vector = 6;
            report(frame, cpu, fault::SYSCALL)
        }
        _ => report(frame, cpu, fault::EXCEPTION),
    }
}

/// If the guest has no stack for the trampoline that it has just entered, undoes the trampoline's steps so that the
/// guest is back at the site. Returns the site.
fn leave_trampoline(frame: &mut Context) -> Option<u64> {
    let (site, moved) = control().patches.begun_trampoline(frame.rip)?;
    let rsp = frame.register(RSP);
    *rsp = rsp.wrapping_add(moved);
    frame.rip = site;
    Some(site)
}

/// Waits until the monitor first enters the vCPU, and fills the frame with the guest's first registers.
fn enter_first(frame: &mut Context, cpu: &PerCpu) {
    let run = cpu.run();
    await_entry(run, 0);
    for number in 0..16 {
        *frame.register(number) = 0;
    }
    let entry = &run.entry;
    *frame.register(RSP) = entry.rsp.load(Relaxed);
    *frame.register(crate::elf::entry::RDI) = entry.rdi.load(Relaxed);
    *frame.register(crate::elf::entry::RSI) = entry.rsi.load(Relaxed);
    frame.rip = entry.rip.load(Relaxed);
    frame.flags_register = 0x202;
    if interrupt::has_lapics() {
        interrupt::mask_at_start(frame);
    }
}
