//! Keeps the CPUs' timers working when the machine is stopped and saved. QEMU saves only EL1's timers
//! (target/arm/machine.c), and on arm64 the kernel uses EL2's: in a machine that was saved, a CPU would wait for an
//! interrupt that never comes.
//!
//! The first CPU, which stops the machine, gets a timer that is the next one to expire on that CPU. This timer is
//! disarmed when the machine continues: the kernel then programs the CPU's hardware timer for its next timer, even
//! if that timer is long overdue.
//!
//! Other CPUs run on for a moment, so it is uncertain which of their timers is next. If a CPU's timer was lost, Linux 7
//! sets no other on that CPU: each timer that a program starts is later than the lost one. So each CPU gets a timer of
//! the time of day, and the time of day is set past it: a CPU that sets the time makes the others check for their next
//! timers (`clock_was_set()` in kernel/time/hrtimer.c).

use super::sys::{self, CLOCK_MONOTONIC, CLOCK_REALTIME, CPUS};

/// The period of the kernel's ticks, in nanoseconds of its monotonic clock: Debian's kernels have 250 Hz.
const TICK: usize = 4_000_000;
/// When the first CPU's timer is set, and when it would expire, as offsets in a period.
const BEGIN: usize = 200_000;
const END: usize = 3_500_000;
/// The lengths of sleeps in nanoseconds.
const SHORT: [usize; 5] = [1_000, 4_000, 16_000, 64_000, 256_000];
/// Nanoseconds.
const SECOND: usize = 1_000_000_000;
/// A time that the clock reaches only if it is set, and a time long after that: the years 2100 and 2131, in seconds
/// since the epoch.
const NEVER: usize = 4_102_444_800;
const AFTERWARDS: u64 = NEVER as u64 + 1_000_000_000;

/// The CPUs' timers.
pub struct Timers {
    /// The number of CPUs.
    cpus: usize,
    /// The timer that is next on the first CPU.
    first: Option<usize>,
}

impl Timers {
    /// Sets the timers, the first CPU's last. This thread then stays on the first CPU.
    pub fn set() -> Self {
        let cpus = (0..CPUS).take_while(|cpu| sys::run_on(*cpu));
        let cpus = cpus
            .inspect(|_| set_timer(CLOCK_REALTIME, [NEVER, 0]).map_or((), drop))
            .count();
        sys::run_on(0);
        let [seconds, nanoseconds] = sys::monotonic_clock();
        // A second is a whole number of ticks.
        let next = nanoseconds / TICK * TICK + TICK;
        let at = |after: usize| [seconds + (next + after) / SECOND, (next + after) % SECOND];
        sys::sleep_until(at(BEGIN));
        let first = set_timer(CLOCK_MONOTONIC, at(END));
        Self { cpus, first }
    }

    /// Disarms the timers. With several CPUs, the time of day is then wrong until the run's time is set.
    pub fn take_back(self) {
        if self.cpus > 1 {
            // Each CPU makes the others check their timers. Nothing here waits for a timer.
            for cpu in (0..self.cpus).rev() {
                sys::run_on(cpu);
                sys::set_clock(AFTERWARDS * SECOND as u64);
            }
        }
        if let Some(timer) = self.first {
            sys::set_timer(timer, [0, 0]);
        }
        // If another timer came before the first CPU's, the next timer is one of these sleeps: in older kernels the
        // sleep until a time in the past, in newer kernels the first sleep whose end is still in the future when it
        // begins.
        sys::sleep_until([0, 1]);
        SHORT.into_iter().for_each(sys::sleep);
        sys::run_anywhere();
    }
}

/// Makes and sets a timer on this CPU.
fn set_timer(clock: usize, time: [usize; 2]) -> Option<usize> {
    let timer = sys::make_timer(clock)?;
    sys::set_timer(timer, time);
    Some(timer)
}
