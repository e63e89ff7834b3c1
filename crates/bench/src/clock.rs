//! The counter that guest programs read, and its conversion to nanoseconds: the time stamp counter of x86-64, the
//! virtual counter of arm64 (CNTVCT_EL0).
//!
//! The frequency of a time stamp counter is measured against `CLOCK_MONOTONIC`, because no CPUID leaf reports it
//! reliably under a hypervisor. Times are good only if the counter is invariant (has the same rate in every power
//! state); the clock says whether the CPU promises that. The virtual counter reports its own frequency (CNTFRQ_EL0),
//! which is constant (Arm DDI 0487, D12 "The Generic Timer"). It is slow: at 62.5 MHz a tick is 16 ns, so the time of a
//! single operation is coarse, but the mean over many is not.
#![allow(unsafe_code, reason = "reading the counter")]

use std::time::{Duration, Instant};

/// How long calibration watches the counter; if each reading is off by up to 50 ns, the frequency is
/// good to 3 ppm.
const WINDOW: Duration = Duration::from_millis(20);

/// How many times both clocks are read together; the pair with the smallest gap is kept.
const BRACKETS: u32 = 16;

/// Why the counter cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClockError {
    /// This program knows no counter on this architecture.
    #[error("no counter is known on this architecture ({0})")]
    Unsupported(&'static str),
    /// The counter does not advance with time.
    #[error("the counter went from {start} to {end} in {elapsed:?}")]
    Backwards {
        /// The counter's value before.
        start: u64,
        /// The counter's value after.
        end: u64,
        /// The time between the two readings.
        elapsed: Duration,
    },
}

/// A counter whose frequency is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TickClock {
    ns_per_tick: f64,
    invariant: bool,
}

impl TickClock {
    /// Measures the counter's frequency, which takes about 20 ms, or asks the CPU for it.
    pub fn calibrate() -> Result<Self, ClockError> {
        if let Some(hz) = counter::frequency() {
            return Ok(Self::with_frequency(hz, true));
        }
        if !cfg!(target_arch = "x86_64") {
            return Err(ClockError::Unsupported(std::env::consts::ARCH));
        }
        let start = simultaneous();
        std::thread::sleep(WINDOW);
        Self::between(start, simultaneous())
    }

    /// Makes the clock from two readings of both clocks.
    #[allow(
        clippy::cast_precision_loss,
        reason = "20 ms are far fewer ticks than 2^53"
    )]
    fn between(
        (start, started): (u64, Instant),
        (end, ended): (u64, Instant),
    ) -> Result<Self, ClockError> {
        let elapsed = ended.duration_since(started);
        match end.checked_sub(start).filter(|ticks| *ticks > 0) {
            Some(ticks) => Ok(Self {
                ns_per_tick: elapsed.as_nanos() as f64 / ticks as f64,
                invariant: invariant(),
            }),
            None => Err(ClockError::Backwards {
                start,
                end,
                elapsed,
            }),
        }
    }

    /// A clock whose frequency the caller knows, in Hz.
    pub const fn with_frequency(hz: f64, invariant: bool) -> Self {
        Self {
            ns_per_tick: 1e9 / hz,
            invariant,
        }
    }

    /// The clock of a machine on which each instruction takes one nanosecond. A time stamp counter counts these
    /// nanoseconds; the virtual counter keeps its own frequency there too.
    pub fn of_instructions() -> Self {
        Self::with_frequency(counter::frequency().unwrap_or(1e9), true)
    }

    /// Converts ticks to nanoseconds.
    #[allow(
        clippy::cast_precision_loss,
        reason = "a difference of counter values, not an absolute one"
    )]
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }

    /// Converts the latencies of single operations from ticks to whole nanoseconds.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "latencies are far below 2^53 ns and not negative"
    )]
    pub fn latencies(&self, ticks: Vec<u64>) -> Vec<u64> {
        let ns = |ticks| self.ns(ticks) as u64;
        ticks.into_iter().map(ns).collect()
    }

    /// Converts nanoseconds to ticks.
    pub fn ticks(&self, ns: f64) -> f64 {
        ns / self.ns_per_tick
    }

    /// The frequency in Hz.
    pub fn hz(&self) -> f64 {
        1e9 / self.ns_per_tick
    }

    /// Whether the CPU promises a constant rate in every power state.
    pub const fn is_invariant(&self) -> bool {
        self.invariant
    }

    /// Reads the counter, after all earlier instructions have finished; always 0 on an architecture that
    /// [`calibrate`](Self::calibrate) refuses.
    pub fn now() -> u64 {
        counter::read()
    }
}

#[cfg(target_arch = "x86_64")]
mod counter {
    pub(super) fn read() -> u64 {
        // SAFETY: LFENCE is part of SSE2, which every x86-64 CPU has; it touches no memory.
        unsafe { std::arch::x86_64::_mm_lfence() };
        // SAFETY: RDTSC reads a register; Linux leaves CR4.TSD clear for user code, and a process
        // that set PR_TSC_SIGSEGV on itself asked for the fault.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    /// `None`: the frequency has to be measured.
    pub(super) const fn frequency() -> Option<f64> {
        None
    }
}

#[cfg(target_arch = "aarch64")]
mod counter {
    use std::arch::asm;

    pub(super) fn read() -> u64 {
        let ticks;
        // SAFETY: ISB and CNTVCT_EL0 touch no memory. Linux lets user code read the counter, or emulates it where
        // the CPU reads it wrongly.
        unsafe { asm!("isb", "mrs {ticks}, cntvct_el0", ticks = out(reg) ticks, options(nostack)) };
        ticks
    }

    /// The frequency that the firmware or the kernel set; `None` if neither did.
    pub(super) fn frequency() -> Option<f64> {
        let hz: u64;
        // SAFETY: reads a register that Linux lets user code read, and touches no memory.
        unsafe { asm!("mrs {hz}, cntfrq_el0", hz = out(reg) hz, options(nomem, nostack)) };
        // The register has 32 bits.
        u32::try_from(hz).ok().filter(|hz| *hz > 0).map(f64::from)
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod counter {
    pub(super) const fn read() -> u64 {
        0
    }

    pub(super) const fn frequency() -> Option<f64> {
        None
    }
}

/// Reads both clocks at one instant: makes several attempts, and keeps the one with the smallest gap between the
/// counter reads on either side.
fn simultaneous() -> (u64, Instant) {
    let pair = || {
        let before = TickClock::now();
        let instant = Instant::now();
        let after = TickClock::now();
        (after.wrapping_sub(before), before, instant)
    };
    let mut best = pair();
    for _ in 1..BRACKETS {
        let next = pair();
        if next.0 < best.0 {
            best = next;
        }
    }
    (best.1 + best.0 / 2, best.2)
}

/// Whether the counter is invariant: CPUID 0x8000_0007, EDX bit 8. A hypervisor that may migrate its
/// guest hides it.
fn invariant() -> bool {
    super::cpuid::leaf(0x8000_0007).is_some_and(|regs| regs.edx & (1 << 8) != 0)
}

#[cfg(test)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tests {
    use super::*;
    use kit::wait::await_that;

    #[test]
    fn two_readings_of_both_clocks_give_the_frequency() {
        let start = Instant::now();
        let clock = TickClock::between((70, start), (50_000_070, start + WINDOW)).unwrap();
        assert!((clock.hz() - 2.5e9).abs() < 1.0, "{}", clock.hz());
        for end in [70, 69] {
            let error = TickClock::between((70, start), (end, start + WINDOW)).unwrap_err();
            assert!(
                matches!(error, ClockError::Backwards { start: 70, .. }),
                "{error}"
            );
        }
        assert!(TickClock::calibrate().unwrap().hz() > 0.0);
    }

    #[test]
    fn a_given_frequency_converts_both_ways() {
        let clock = TickClock::with_frequency(2.5e9, true);
        assert!((clock.ns(250) - 100.0).abs() < 1e-9);
        assert!((clock.ticks(100.0) - 250.0).abs() < 1e-9);
        assert!((clock.hz() - 2.5e9).abs() < 1.0);
        assert!(clock.is_invariant());
    }

    #[test]
    fn the_counter_advances() {
        let first = TickClock::now();
        // A tick of a slow counter is longer than a reading takes.
        await_that("the next tick", || TickClock::now() > first);
    }
}
