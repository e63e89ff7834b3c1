//! The EOI of an interrupt, on the vCPU's thread: paravirtual EOI in the guest's RAM, and the EOI of an I/O APIC pin,
//! which takes the line down and signals the pin's resamplefds. The monitor does the pin's EOI only if the pin has more
//! resamplefds than the stub can hold.
//!
//! After a vCPU has signalled a resamplefd, it polls for a moment for the device's next interrupt, called the *answer*:
//! a device whose line was resampled raises it again if it has more work, and a device that polls does so within a
//! microsecond. If the vCPU is back in the guest by then, a signal must make it leave, which costs several times as
//! much. The vCPU learns whether polling pays as Linux does for halts (`virt/kvm/kvm_main.c`, `grow_halt_poll_ns`). It
//! begins to poll when a device has answered within the time that a signal takes, and stops when no answer came while
//! it polled. After each stop, it lets about twice as many answers pass before it polls again.

use super::apic::{complete_eoi, deliver};
use crate::elf::exit::heavy_exit;
use crate::elf::exit::in_ram;
use crate::elf::percpu::{PerCpu, control, shared};
use crate::elf::syscall::ring_eventfd;
use crate::layout::reason;
use vmbell_core::event::Event;
use vmbell_core::ioapic::{self, EoiActions, Pin, PinLine};
use vmbell_core::lapic::Message;
use vmbell_core::pv_eoi::{Completion, GuestByte};
use vmbell_core::sync::Ordering::Relaxed;
use vmbell_core::sync::{AtomicU32, AtomicU64};

struct GuestRam;

impl GuestByte for GuestRam {
    fn read(&self, address: u64) -> Option<u8> {
        // SAFETY: RAM stays mapped; the guest may write it meanwhile, hence volatile.
        in_ram(address, 1).then(|| unsafe { (address as *const u8).read_volatile() })
    }

    fn write(&self, address: u64, value: u8) -> bool {
        let is_there = in_ram(address, 1);
        if is_there {
            // SAFETY: as for `read`.
            unsafe { (address as *mut u8).write_volatile(value) };
        }
        is_there
    }
}

/// Arms paravirtual EOI. Called right after `vector` was injected.
pub fn arm(cpu: &PerCpu, vector: u8) {
    let (pv_eoi, lapic) = (&cpu.interrupts().pv_eoi, cpu.lapic());
    let is_level = lapic.tmr.contains(vector);
    if is_level && ioapic::begin_service(&control().pins, &shared().lines, vector) {
        pv_eoi.arm_forwarded(lapic, &GuestRam);
    } else {
        pv_eoi.arm(lapic, &GuestRam);
    }
}

/// Does the EOI if one is armed. Called when the vCPU has just left the guest.
#[inline(always)]
pub fn complete(cpu: &PerCpu) {
    if cpu.interrupts().pv_eoi.is_pending() {
        complete_pending(cpu);
    }
}

fn complete_pending(cpu: &PerCpu) {
    let state = cpu.interrupts();
    if let Completion::Completed(Some(eoi)) = state.pv_eoi.complete(cpu.lapic(), &GuestRam) {
        super::count(cpu, Event::PvEoi);
        complete_eoi(cpu, eoi);
    }
}

struct StubEoi<'c> {
    cpu: &'c PerCpu,
    /// Whether a resamplefd was signalled.
    signalled: bool,
}

impl EoiActions for StubEoi<'_> {
    fn deliver(&mut self, message: Message) -> bool {
        deliver(self.cpu, message)
    }

    fn resample(&mut self, _number: u8, pin: &Pin) {
        self.signalled = true;
        let one = control().one.as_ptr();
        pin.resamplefds()
            .for_each(|descriptor| ring_eventfd(descriptor, one));
    }

    fn count(&mut self, event: Event) {
        super::count(self.cpu, event);
    }
}

/// Does the EOI of each pin with `vector`. The vector has left service. This runs in a read-side section, and the
/// removal of a resamplefd waits for the section to end.
pub fn complete_ioapic_eoi(cpu: &PerCpu, vector: u8) {
    let (pins, lines) = (&control().pins, &shared().lines);
    let mut pin_lines = PinLine::with_vector(pins, lines, vector);
    if pin_lines.any(|(_, pin_line)| pin_line.pin.needs_monitor_eoi()) {
        heavy_exit(cpu, reason::EOI, 0, vector.into(), 0, 0);
        return;
    }
    let sections = &shared().trap_sections;
    let section = sections.enter(&control().phase);
    let mut eoi = StubEoi {
        cpu,
        signalled: false,
    };
    ioapic::eoi_pins(pins, lines, vector, &mut eoi);
    sections.leave(section);
    if eoi.signalled {
        poll_after_resample(cpu);
    }
}

/// How long a vCPU polls, in TSC ticks: about 3 us. Every signal takes longer.
const POLL_TICKS: u64 = 9_000;
/// An interrupt that comes within this many TSC ticks after the EOI, about 10 us, counts as the device's answer.
const ANSWER_TICKS: u64 = 30_000;
/// The maximum number of answers that may pass before the vCPU tries to poll again.
const MAX_SKIPS: u32 = 1023;

/// What a vCPU has learnt about polling. All-zero bytes mean that it does not poll.
#[repr(C)]
pub struct ResamplePoll {
    /// The TSC value when a resamplefd was last signalled without polling; 0 if that did not happen.
    resampled_at: AtomicU64,
    /// Not 0 if the vCPU polls.
    polls: AtomicU32,
    /// How many answers must pass before the vCPU polls again.
    skips_left: AtomicU32,
    /// The value that `skips_left` last started from.
    last_skips: AtomicU32,
}

/// Polls for the answer of a device whose resamplefd was just signalled, if polling pays.
pub fn poll_after_resample(cpu: &PerCpu) {
    let state = &cpu.resample_poll;
    let start = now();
    if state.polls.load(Relaxed) == 0 {
        state.resampled_at.store(start, Relaxed);
        return;
    }
    while now().wrapping_sub(start) < POLL_TICKS {
        if !cpu.lapic().irr.is_empty() || cpu.pending_signals.load(Relaxed) != 0 {
            state.last_skips.store(0, Relaxed);
            return;
        }
        core::hint::spin_loop();
    }
    let more = (2 * state.last_skips.load(Relaxed) + 1).min(MAX_SKIPS);
    state.last_skips.store(more, Relaxed);
    state.skips_left.store(more, Relaxed);
    state.polls.store(0, Relaxed);
}

/// Called when an interrupt is injected into the guest: learns from the interrupt if it is the answer.
pub fn learn_from_injection(cpu: &PerCpu) {
    let state = &cpu.resample_poll;
    let resampled_at = state.resampled_at.load(Relaxed);
    if resampled_at == 0 {
        return;
    }
    state.resampled_at.store(0, Relaxed);
    if now().wrapping_sub(resampled_at) < ANSWER_TICKS {
        match state.skips_left.load(Relaxed) {
            0 => state.polls.store(1, Relaxed),
            left => state.skips_left.store(left - 1, Relaxed),
        }
    }
}

fn now() -> u64 {
    // SAFETY: `rdtsc` is allowed: the monitor does not set PR_TSC_SIGSEGV.
    unsafe { core::arch::x86_64::_rdtsc() }
}
