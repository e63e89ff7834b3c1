//! Instructions that trap with #GP on purpose: port input and output, `hlt`, `cli`, `sti`, `rdmsr`,
//! `wrmsr`.

use crate::decode::{Instruction, Operation};
use crate::elf::entry::{Context, RAX, RCX, RDI, RDX, RSI};
use crate::elf::exit::{hand_over, heavy_exit, in_ram, report, ring};
use crate::elf::fetch::fetch;
use crate::elf::interrupt::{self, MsrResult};
use crate::elf::percpu::{PerCpu, control};
use crate::layout::{fault, reason};
use crate::patches::Fetched;
use vmbell_core::event::Event;
use vmbell_core::sync::Ordering::Relaxed;
use vmbell_core::table::Kind;

/// Emulates the instruction at `frame.rip`. `first_byte` is its first byte, if a patch has replaced it.
pub fn emulate(frame: &mut Context, cpu: &PerCpu, first_byte: Option<u8>) {
    let rip = frame.rip;
    let Instruction { operation, len, .. } = match fetch(frame, first_byte) {
        Fetched::Instruction(instruction) => instruction,
        Fetched::Patched(address) => {
            frame.rip = address;
            return;
        }
        Fetched::Other => report(frame, cpu, fault::PRIVILEGED),
    };
    let next = rip.wrapping_add(u64::from(len));
    match operation {
        Operation::Out { width, port } => {
            let port = port.map_or_else(|| frame.read(RDX, false, 2), u64::from);
            let value = frame.read(RAX, false, width);
            output(cpu, rip, port, width, value);
        }
        Operation::In { width, port } => {
            let port = port.map_or_else(|| frame.read(RDX, false, 2), u64::from);
            let value = input(cpu, rip, port, width);
            frame.write(RAX, false, width, value);
        }
        Operation::Outs { width, repeat } => {
            if !string_io(frame, cpu, width, repeat, true) {
                return;
            }
        }
        Operation::Ins { width, repeat } => {
            if !string_io(frame, cpu, width, repeat, false) {
                return;
            }
        }
        Operation::Hlt if interrupt::has_lapics() => {
            frame.rip = next;
            interrupt::halt(frame, cpu);
        }
        Operation::Hlt => {
            heavy_exit(cpu, reason::HLT, rip, 0, 0, 0);
        }
        Operation::Cli | Operation::Sti if !interrupt::has_lapics() => {
            report(frame, cpu, fault::PRIVILEGED)
        }
        Operation::Cli => interrupt::mask(frame, cpu),
        Operation::Sti => interrupt::unmask(frame, cpu, next),
        Operation::Rdmsr => {
            interrupt::count(cpu, Event::Msr);
            let index = frame.read(RCX, false, 4);
            let value = match interrupt::read_msr(cpu, (index & 0xffff_ffff) as u32) {
                MsrResult::Unhandled => heavy_exit(cpu, reason::MSR_READ, rip, index, 8, 0),
                MsrResult::Value(value) => value,
                MsrResult::Fault => report_msr_fault(frame, cpu),
            };
            frame.write(RAX, false, 4, value);
            frame.write(RDX, false, 4, value >> 32);
        }
        Operation::Wrmsr => {
            interrupt::count(cpu, Event::Msr);
            let index = frame.read(RCX, false, 4);
            let value = frame.read(RDX, false, 4) << 32 | frame.read(RAX, false, 4);
            match interrupt::write_msr(cpu, (index & 0xffff_ffff) as u32, value) {
                MsrResult::Unhandled => {
                    heavy_exit(cpu, reason::MSR_WRITE, rip, index, 8, value);
                }
                MsrResult::Value(_) => {}
                MsrResult::Fault => report_msr_fault(frame, cpu),
            }
        }
        // A `mov` that raises #GP has a non-canonical address.
        Operation::Load { .. } | Operation::Store { .. } => {
            report(frame, cpu, fault::ABOVE_GUEST_END)
        }
    }
    frame.rip = next;
    if first_byte.is_none() {
        count_site_trap(cpu, rip);
    }
}

/// Reports an MSR access that raises #GP, because guests have no handler for exceptions.
fn report_msr_fault(frame: &mut Context, cpu: &PerCpu) -> ! {
    const GENERAL_PROTECTION: u64 = 13;
    // The site may be patched to `int3`, so the vector may be that of a breakpoint.
    frame.vector = GENERAL_PROTECTION;
    report(frame, cpu, fault::MSR)
}

/// Handles a write to a port: rings the doorbells that match, or hands the write over to the monitor.
#[inline(always)]
fn output(cpu: &PerCpu, rip: u64, port: u64, width: u8, value: u64) {
    interrupt::count(cpu, Event::Pio);
    if !ring(cpu, Kind::Pio, port, width, value) {
        heavy_exit(cpu, reason::PIO_OUT, rip, port, width, value);
    }
}

/// Handles a read of a port.
fn input(cpu: &PerCpu, rip: u64, port: u64, width: u8) -> u64 {
    interrupt::count(cpu, Event::Pio);
    heavy_exit(cpu, reason::PIO_IN, rip, port, width, 0)
}

/// Handles `ins` and `outs`, one element at a time, so that a kick or an interrupt can come in between. Returns false
/// if the instruction is not finished and has to be executed again.
fn string_io(frame: &mut Context, cpu: &PerCpu, width: u8, repeat: bool, out: bool) -> bool {
    const DIRECTION: u64 = 1 << 10;
    let step = if frame.flags_register & DIRECTION == 0 {
        u64::from(width)
    } else {
        u64::from(width).wrapping_neg()
    };
    let pointer = if out { RSI } else { RDI };
    let port = frame.read(RDX, false, 2);
    loop {
        if repeat && *frame.register(RCX) == 0 {
            return true;
        }
        let address = *frame.register(pointer);
        if !in_ram(address, u64::from(width)) {
            report(frame, cpu, fault::STRING);
        }
        if out {
            output(cpu, frame.rip, port, width, peek(address, width));
        } else {
            let value = input(cpu, frame.rip, port, width);
            poke(address, width, value);
        }
        *frame.register(pointer) = address.wrapping_add(step);
        if !repeat {
            return true;
        }
        let left = frame.register(RCX);
        *left = left.wrapping_sub(1);
        if *left != 0 && cpu.pending_signals.load(Relaxed) != 0 {
            return false;
        }
    }
}

fn peek(address: u64, width: u8) -> u64 {
    let mut value = 0;
    for place in 0..u64::from(width) {
        // SAFETY: the caller has checked that all bytes are in RAM; other vCPUs may write to them, hence volatile.
        let byte = unsafe { ((address + place) as *const u8).read_volatile() };
        value |= u64::from(byte) << (8 * place);
    }
    value
}

fn poke(address: u64, width: u8, value: u64) {
    for place in 0..u64::from(width) {
        // SAFETY: as for `peek`.
        unsafe {
            ((address + place) as *mut u8).write_volatile((value >> (8 * place) & 0xff) as u8);
        };
    }
}

/// Counts a trap at `rip`, and asks the monitor to patch the site once it has trapped `patch_after` times.
pub fn count_site_trap(cpu: &PerCpu, rip: u64) {
    let after = control().patch_after.load(Relaxed);
    if after == 0 {
        return;
    }
    let traps = &cpu.site_traps[(rip.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize];
    let count = traps.load(Relaxed).saturating_add(1);
    traps.store(count, Relaxed);
    // Asks again each time the count doubles: two sites may share the counter, and the other site may have asked first.
    if count >= after && count.is_power_of_two() {
        ask(cpu, reason::PATCH, rip);
    }
}

/// Asks the monitor to change the code at `site`.
pub fn ask(cpu: &PerCpu, reason: u32, site: u64) {
    let run = cpu.run();
    run.exit.reason.store(reason, Relaxed);
    run.exit.rip.store(site, Relaxed);
    hand_over(run);
}
