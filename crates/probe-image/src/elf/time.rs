//! Time: the power management timer of ACPI, the frequency of the time stamp counter, and bounded waits, so that no VMM
//! can make the image wait forever.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::cpu::{cpuid, halt, in32, ticks, write_msr};
use super::hypervisor::Cpu;
use super::memory::Registers;
use crate::acpi::fadt::Register;
use crate::acpi::tables::Acpi;
use crate::clock;

/// The power management timer has 24 or 32 bits; the lower 24 bits count in both.
const BITS: u32 = 0xff_ffff;

/// The power management timer, at the address in the FADT.
#[derive(Clone, Copy)]
pub enum PmTimer {
    Port(u16),
    Memory(Registers),
}

impl PmTimer {
    /// The timer, if the FADT has one.
    pub fn new(acpi: &Acpi) -> Option<Self> {
        match acpi.fadt?.pm_timer? {
            Register::Port(port) => Some(Self::Port(port)),
            Register::Memory(address) => Some(Self::Memory(Registers::new(address, 4)?)),
        }
    }

    /// Reads the timer.
    #[inline]
    pub fn read(self) -> u32 {
        let value = match self {
            Self::Port(port) => in32(port),
            Self::Memory(registers) => registers.read32(0),
        };
        value & BITS
    }

    /// How far the timer has advanced since it had the value `from`.
    pub fn since(self, from: u32) -> u32 {
        self.read().wrapping_sub(from) & BITS
    }
}

/// KVM's pvclock page for a vCPU (Linux, `struct pvclock_vcpu_time_info`), in words.
#[repr(C, align(64))]
struct Page([AtomicU32; 8]);

static PAGE: Page = Page([const { AtomicU32::new(0) }; 8]);
const MULTIPLIER: usize = 6;
const SHIFT: usize = 7;

/// The frequency of the time stamp counter in hertz, and its source: pvclock, CPUID or the power management timer.
pub fn frequency(cpu: &Cpu, pm_timer: Option<PmTimer>) -> Option<(u64, &'static str)> {
    let named = |hz: Option<u64>, source| hz.map(|hz| (hz, source));
    named(pvclock(cpu), "pvclock")
        .or_else(|| named(by_cpuid(cpu), "cpuid"))
        .or_else(|| named(by_pm_timer(pm_timer?), "pm-timer"))
}

/// Measures the frequency during 20 ms of the timer (`COUNTS`). `None` if the timer does not count.
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
    // KVM writes the page when it next enters the guest.
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

/// The maximum number of ticks of a wait: about a second on a fast CPU, longer on a slow one.
const LIMIT: u64 = 4_000_000_000;
/// The maximum number of checks of a condition, in case the time stamp counter does not count.
const LOOKS: u64 = 400_000_000;

/// Polls until a condition is true. Returns false if it does not become true in time.
#[inline]
pub fn wait_until(condition: impl Fn() -> bool) -> bool {
    if condition() {
        return true;
    }
    let from = ticks();
    for _ in 0..LOOKS {
        if condition() {
            return true;
        }
        if ticks().wrapping_sub(from) > LIMIT {
            break;
        }
        core::hint::spin_loop();
    }
    false
}

/// Halts until a condition is true. Returns false if it does not become true in time. The watchdog must be running,
/// otherwise nothing might end the halt.
#[inline]
pub fn halt_until(condition: impl Fn() -> bool) -> bool {
    let from = ticks();
    loop {
        if condition() {
            return true;
        }
        if ticks().wrapping_sub(from) > LIMIT {
            return false;
        }
        halt();
    }
}
