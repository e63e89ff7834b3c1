//! The time stamp counter, which guest programs read, and its conversion to nanoseconds.
//!
//! The counter's frequency is measured against `CLOCK_MONOTONIC`, because no CPUID leaf tells it
//! reliably under a hypervisor. Times are good only if the counter is invariant (has the same rate in
//! every power state); the clock says whether the CPU promises that.
#![allow(unsafe_code, reason = "reading the counter")]

use std::time::{Duration, Instant};

/// How long calibration watches the counter; if each reading is off by up to 50 ns, the frequency is
/// good to 3 ppm.
const WINDOW: Duration = Duration::from_millis(20);

/// How many times both clocks are read together; the pair with the smallest gap is kept.
const BRACKETS: u32 = 16;

/// Why the time stamp counter cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClockError {
    /// This architecture has no time stamp counter.
    #[error("no time stamp counter on this architecture ({0})")]
    Unsupported(&'static str),
    /// The counter does not advance with time.
    #[error("the time stamp counter went from {start} to {end} in {elapsed:?}")]
    Backwards {
        /// The counter's value before.
        start: u64,
        /// The counter's value after.
        end: u64,
        /// The time between the two readings.
        elapsed: Duration,
    },
}

/// A time stamp counter whose frequency is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    ns_per_tick: f64,
    invariant: bool,
}

impl Clock {
    /// Measures the counter's frequency; takes about 20 ms.
    #[allow(
        clippy::cast_precision_loss,
        reason = "20 ms are far fewer ticks than 2^53"
    )]
    pub fn calibrate() -> Result<Self, ClockError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(ClockError::Unsupported(std::env::consts::ARCH));
        }
        let (start, started) = simultaneous();
        std::thread::sleep(WINDOW);
        let (end, ended) = simultaneous();
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

    /// Reads the counter, after all earlier instructions have finished.
    #[cfg(target_arch = "x86_64")]
    pub fn now() -> u64 {
        // SAFETY: LFENCE is part of SSE2, which every x86-64 CPU has; it touches no memory.
        unsafe { std::arch::x86_64::_mm_lfence() };
        // SAFETY: RDTSC reads a register; Linux leaves CR4.TSD clear for user code, and a process
        // that set PR_TSC_SIGSEGV on itself asked for the fault.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    /// Always 0: [`calibrate`](Self::calibrate) refuses this architecture.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn now() -> u64 {
        0
    }
}

/// Reads both clocks at one instant: of several attempts, the one with the smallest gap between the
/// counter reads on either side.
fn simultaneous() -> (u64, Instant) {
    let pair = || {
        let before = Clock::now();
        let instant = Instant::now();
        let after = Clock::now();
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
#[cfg(target_arch = "x86_64")]
#[path = "clock_test.rs"]
mod tests;
