//! The frequency of the time stamp counter: by pvclock, CPUID or the power management timer, in
//! this order, otherwise not known.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::cpu::{cpuid, ticks, write_msr};
use super::hypervisor::Cpu;
use super::pm_timer::PmTimer;
use super::wait::wait_until;
use crate::clock;

/// KVM's page of time for a vCPU (Linux, `struct pvclock_vcpu_time_info`), in words.
#[repr(C, align(64))]
struct Page([AtomicU32; 8]);

static PAGE: Page = Page([const { AtomicU32::new(0) }; 8]);
const MULTIPLIER: usize = 6;
const SHIFT: usize = 7;

/// The frequency in hertz, and its source.
pub fn frequency(cpu: &Cpu, pm_timer: Option<PmTimer>) -> Option<(u64, &'static str)> {
    let named = |hz: Option<u64>, source| hz.map(|hz| (hz, source));
    named(pvclock(cpu), "pvclock")
        .or_else(|| named(by_cpuid(cpu), "cpuid"))
        .or_else(|| named(by_pm_timer(pm_timer?), "pm-timer"))
}

/// Counts ticks for twenty milliseconds of the timer (`COUNTS`). A timer that does not count gives none.
fn by_pm_timer(timer: PmTimer) -> Option<u64> {
    const COUNTS: u32 = 71_591;
    let (begin, from) = (timer.read(), ticks());
    if !wait_until(|| timer.since(begin) >= COUNTS) {
        return None;
    }
    let counts = timer.since(begin);
    clock::pm_timer_hz(ticks() - from, u64::from(counts))
}

fn pvclock(cpu: &Cpu) -> Option<u64> {
    const CLOCKSOURCE2: u32 = 1 << 3;
    const SYSTEM_TIME: u32 = 0x4b56_4d01;
    cpu.kvm_features.filter(|bits| bits & CLOCKSOURCE2 != 0)?;
    write_msr(SYSTEM_TIME, core::ptr::from_ref(&PAGE) as u64 | 1).ok()?;
    // KVM writes the page on the way back into the guest.
    let multiplier = PAGE.0[MULTIPLIER].load(Relaxed);
    let [shift, ..] = PAGE.0[SHIFT].load(Relaxed).to_le_bytes();
    let _ = write_msr(SYSTEM_TIME, 0);
    clock::pvclock_hz(multiplier, i8::from_le_bytes([shift]))
}

fn by_cpuid(cpu: &Cpu) -> Option<u64> {
    const CRYSTAL: u32 = 0x15;
    const HYPERVISOR: u32 = 0x4000_0000;
    const TIMING: u32 = HYPERVISOR + 0x10;
    if cpuid(0, 0)[0] >= CRYSTAL {
        let [denominator, numerator, crystal, _] = cpuid(CRYSTAL, 0);
        if let Some(hz) = clock::cpuid_hz(denominator, numerator, crystal) {
            return Some(hz);
        }
    }
    cpu.hypervisor()?;
    if !(TIMING..TIMING + 0xf0).contains(&cpuid(HYPERVISOR, 0)[0]) {
        return None;
    }
    clock::plausible(u64::from(cpuid(TIMING, 0)[0]) * 1000)
}
