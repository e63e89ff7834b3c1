//! The CPUs' timers across a stop of the machine. QEMU saves those of EL1 only (target/arm/machine.c), and on arm64 the kernel uses
//! those of EL2: where it was saved, a CPU would wait for an interrupt that never comes.
//!
//! The first CPU, which stops the machine, gets a timer of the kernel's that is the next one there. It is taken back when the machine
//! goes on: the kernel then sets the CPU's own timer for the one that follows, even if that should have come long ago.
//!
//! Other CPUs run on for a moment, so that none of their timers is the next one for certain. Where one was lost, Linux 7 sets no other
//! any more: each that a program starts is later than it. They get a timer of the time of day, which is set past it: a CPU that sets
//! the time has the others look for their next timers again (`clock_was_set()` in kernel/time/hrtimer.c).

use super::sys::{self, CLOCK_MONOTONIC, CLOCK_REALTIME, CPUS};

/// Ticks of the kernel are multiples of this, in nanoseconds of its monotonic clock: Debian's kernels have 250 Hz.
const TICK: usize = 4_000_000;
/// When in such a period the first CPU's timer is set, and when it would come.
const BEGIN: usize = 200_000;
const END: usize = 3_500_000;
/// The lengths of sleeps in nanoseconds.
const SHORT: [usize; 5] = [1_000, 4_000, 16_000, 64_000, 256_000];
/// Nanoseconds.
const SECOND: usize = 1_000_000_000;
/// A time of day that comes only if it is set, and one long after it, in seconds since the epoch: 2100 and 2131.
const NEVER: usize = 4_102_444_800;
const AFTERWARDS: u64 = NEVER as u64 + 1_000_000_000;

/// The CPUs' timers.
pub struct Timers {
    /// The number of CPUs.
    cpus: usize,
    /// The next one of the first CPU.
    first: Option<usize>,
}

impl Timers {
    /// Sets the timers, of the first CPU last: this thread stays there.
    pub fn set() -> Self {
        let cpus = (0..CPUS).take_while(|cpu| sys::run_on(*cpu));
        let cpus = cpus
            .inspect(|_| set_timer(CLOCK_REALTIME, [NEVER, 0]).map_or((), drop))
            .count();
        sys::run_on(0);
        let [seconds, nanoseconds] = sys::monotonic_clock();
        // A second has a whole number of ticks.
        let next = nanoseconds / TICK * TICK + TICK;
        let at = |after: usize| [seconds + (next + after) / SECOND, (next + after) % SECOND];
        sys::sleep_until(at(BEGIN));
        let first = set_timer(CLOCK_MONOTONIC, at(END));
        Self { cpus, first }
    }

    /// Takes them back. With several CPUs the time of day is wrong afterwards, until the run's is set.
    pub fn take_back(self) {
        if self.cpus > 1 {
            // Each CPU serves the others. Nothing here waits for a timer.
            for cpu in (0..self.cpus).rev() {
                sys::run_on(cpu);
                sys::set_clock(AFTERWARDS * SECOND as u64);
            }
        }
        if let Some(timer) = self.first {
            sys::set_timer(timer, [0, 0]);
        }
        // If another timer came before it, these are the next: in older kernels one for the past, in newer ones the first that is not
        // over when it begins.
        sys::sleep_until([0, 1]);
        SHORT.into_iter().for_each(sys::sleep);
        sys::run_anywhere();
    }
}

/// A timer of this CPU.
fn set_timer(clock: usize, time: [usize; 2]) -> Option<usize> {
    let timer = sys::make_timer(clock)?;
    sys::set_timer(timer, time);
    Some(timer)
}
