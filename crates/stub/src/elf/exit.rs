//! Exits of the guest, on the vCPU's thread: light exits, which ring the doorbells of a write here, and heavy exits,
//! which are handed over to the monitor.
//!
//! A light exit looks the write up in the doorbell table and writes to the eventfds of the doorbells that match. A
//! heavy exit waits until the monitor enters the vCPU again. A fault after which the guest cannot continue is reported
//! to the monitor with the bytes of the instruction.

use crate::elf::entry::{Context, truncate};
use crate::elf::interrupt;
use crate::elf::percpu::{PerCpu, control, shared};
use crate::elf::syscall::{exit_group, futex_wait, futex_wake, ring_eventfd};
use crate::layout::{Control, MAX_PAYLOADS, PATCH_BASE, PATCH_SIZE, RunPage, exit_code, reason};
use crate::section::Sections;
use vmbell_core::addresses::RAM_BASE;
use vmbell_core::event::Event;
use vmbell_core::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use vmbell_core::table::{CODE, Kind, PAYLOAD, Signals};

/// Rings from a trap handler. Returns false if no doorbell matches.
pub fn ring(cpu: &PerCpu, kind: Kind, address: u64, len: u8, value: u64) -> bool {
    let hit = ring_in(
        &shared().trap_sections,
        control(),
        kind,
        address,
        u32::from(len),
        value,
        ring_all,
    );
    if hit {
        cpu.run().counters.light.fetch_add(1, Relaxed);
    }
    hit
}

/// Rings inside a read-side section of `sections`: the removal of a doorbell waits for the section to end, so the write
/// arrives as a signal before the removal returns, or as an exit. `otherwise` is called if the lookup found no signal,
/// a list or a payload. Returns false if no doorbell matches.
#[inline(always)]
pub fn ring_in(
    sections: &Sections,
    control: &'static Control,
    kind: Kind,
    address: u64,
    len: u32,
    value: u64,
    otherwise: impl FnOnce(Signals<'static>, u64, *const u64),
) -> bool {
    let section = sections.enter(&control.phase);
    let one = control.one.as_ptr();
    let signals = control.doorbells.lookup(kind, address, len, value);
    match signals.single() {
        Some(fd) => ring_eventfd(fd, one),
        None => otherwise(signals, value, one),
    }
    sections.leave(section);
    !signals.is_empty()
}

/// Rings all eventfds of a list. If a doorbell has a payload, it is stored before its eventfd is signalled.
#[inline(always)]
pub fn ring_all(signals: Signals<'_>, value: u64, one: *const u64) {
    for signal in signals {
        let fd = if signal & PAYLOAD == 0 {
            signal
        } else {
            let index = (signal & CODE) as usize % MAX_PAYLOADS;
            shared().payloads[index].store(value, Release);
            control().payload_fds[index].load(Relaxed)
        };
        ring_eventfd(fd, one);
    }
}

/// Hands an exit over to the monitor and returns the answer. Out of line, so that a light exit does not have to save
/// registers for it.
#[inline(never)]
pub fn heavy_exit(cpu: &PerCpu, reason: u32, rip: u64, address: u64, len: u8, data: u64) -> u64 {
    let run = cpu.run();
    let exit = &run.exit;
    exit.reason.store(reason, Relaxed);
    exit.len.store(u32::from(len), Relaxed);
    exit.address.store(address, Relaxed);
    exit.data.store(
        if reason == reason::MSR_WRITE {
            data
        } else {
            truncate(data, len)
        },
        Relaxed,
    );
    exit.rip.store(rip, Relaxed);
    run.counters.heavy.fetch_add(1, Relaxed);
    interrupt::count(cpu, Event::UserspaceExit);
    hand_over(run)
}

/// Publishes the exit that the caller has written to `run.exit`, waits for the monitor's answer, and returns it. The
/// exit sequence takes kicks that arrive meanwhile.
pub fn hand_over(run: &RunPage) -> u64 {
    let before = run.entry_handover.sequence.load(Relaxed);
    run.exit_handover.sequence.fetch_add(1, SeqCst);
    if run.exit_handover.sleeping.load(SeqCst) != 0 {
        futex_wake(&run.exit_handover.sequence);
    }
    await_entry(run, before);
    run.reply.load(Relaxed)
}

/// Waits until the monitor has handed the vCPU back: its sequence number is no longer `before`.
pub fn await_entry(run: &RunPage, before: u32) {
    let handover = &run.entry_handover;
    if spin(run, before) {
        return;
    }
    loop {
        handover.sleeping.store(1, SeqCst);
        if handover.sequence.load(SeqCst) != before {
            break;
        }
        futex_wait(&handover.sequence, before);
    }
    handover.sleeping.store(0, Relaxed);
}

fn spin(run: &RunPage, before: u32) -> bool {
    let budget = control().spin_ticks.load(Relaxed);
    let handover = &run.entry_handover;
    if budget == 0 || (control().spin_adaptive.load(Relaxed) != 0 && !monitor_runs_elsewhere(run)) {
        return false;
    }
    let start = now();
    while now().wrapping_sub(start) < u64::from(budget) {
        for _ in 0..16 {
            if handover.sequence.load(Acquire) != before {
                return true;
            }
            core::hint::spin_loop();
        }
    }
    false
}

/// Whether the monitor is known to run on another CPU. Spinning on the monitor's CPU would only delay it.
fn monitor_runs_elsewhere(run: &RunPage) -> bool {
    let mine = cpu() + 1;
    run.entry_handover.waiter_cpu.store(mine, Relaxed);
    let theirs = run.exit_handover.waiter_cpu.load(Relaxed);
    theirs != 0 && theirs != mine
}

fn now() -> u64 {
    // SAFETY: `rdtsc` is allowed: the monitor does not set PR_TSC_SIGSEGV.
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn cpu() -> u32 {
    let mut auxiliary = 0;
    // SAFETY: as for `rdtsc`; Linux keeps the CPU number in the low 12 bits of TSC_AUX.
    unsafe { core::arch::x86_64::__rdtscp(&raw mut auxiliary) };
    auxiliary & 0xfff
}

/// Whether guest RAM backs all of these bytes.
#[inline(always)]
pub fn in_ram(address: u64, len: u64) -> bool {
    let size = control().ram_size.load(Relaxed);
    address >= RAM_BASE && len <= size && address - RAM_BASE <= size - len
}

/// Hands a fault over. The monitor does not enter this vCPU again.
pub fn report(frame: &Context, cpu: &PerCpu, kind: u64) -> ! {
    let run = cpu.run();
    let exit = &run.exit;
    exit.reason.store(reason::FAULT, Relaxed);
    exit.len.store((frame.vector & 0xff) as u32, Relaxed);
    exit.address.store(frame.fault_address, Relaxed);
    exit.data.store(kind, Relaxed);
    exit.rip.store(frame.rip, Relaxed);
    let mut bytes = [0u8; 16];
    let mut count = 0;
    for (place, byte) in (0u64..15).zip(bytes.iter_mut()) {
        let address = frame.rip.wrapping_add(place);
        let readable =
            in_ram(address, 1) || (PATCH_BASE..PATCH_BASE + PATCH_SIZE).contains(&address);
        if !readable {
            break;
        }
        // SAFETY: the check above found guest memory, which stays mapped. Another vCPU may write it meanwhile, hence
        // volatile; a report may have the old or the new byte.
        *byte = unsafe { (address as *const u8).read_volatile() };
        count += 1;
    }
    bytes[15] = count;
    let (low, high) = bytes.split_at(8);
    for (word, half) in exit.instruction.iter().zip([low, high]) {
        let value = half
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u64::from(*byte));
        word.store(value, Relaxed);
    }
    run.counters.heavy.fetch_add(1, Relaxed);
    hand_over(run);
    exit_group(exit_code::STUB_FAULT)
}
