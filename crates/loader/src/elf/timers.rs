//! The CPUs' timers across a stop of the machine. QEMU saves those of EL1 only (target/arm/machine.c), and on arm64 the kernel uses
//! those of EL2: where it was saved, a CPU would wait for an interrupt that never comes.
//!
//! The loader gives each CPU a timer of the kernel's that is the next one of all there, and takes it back when the machine goes on.
//! The kernel then sets the CPU's own timer for the one that follows, even if that should have come long ago.

use super::sys::{self, CPUS};

/// Ticks of the kernel are multiples of this, in nanoseconds of its monotonic clock: Debian's kernels have 250 Hz.
const TICK: usize = 4_000_000;
/// When in such a period the timers are set, and when they would come.
const BEGIN: usize = 200_000;
const END: usize = 3_500_000;
/// The lengths of sleeps in nanoseconds.
const SHORT: [usize; 5] = [1_000, 4_000, 16_000, 64_000, 256_000];
/// Nanoseconds.
const SECOND: usize = 1_000_000_000;

/// The timer of each CPU.
pub struct Timers([Option<usize>; CPUS]);

impl Timers {
    /// Sets the timers, of the first CPU last: this thread stays there.
    pub fn set() -> Self {
        let [seconds, nanoseconds] = sys::monotonic_clock();
        // A second has a whole number of ticks.
        let next = nanoseconds / TICK * TICK + TICK;
        let at = |after: usize| [seconds + (next + after) / SECOND, (next + after) % SECOND];
        sys::sleep_until(at(BEGIN));
        let mut timers = [None; CPUS];
        for (cpu, timer) in timers.iter_mut().enumerate().rev() {
            if sys::run_on(cpu) {
                *timer = sys::make_timer();
                timer.inspect(|timer| sys::set_timer(*timer, at(END)));
            }
        }
        Self(timers)
    }

    /// Takes them back.
    pub fn take_back(self) {
        for (cpu, timer) in self.0.into_iter().enumerate() {
            if let Some(timer) = timer
                && sys::run_on(cpu)
            {
                sys::set_timer(timer, [0, 0]);
                // If another timer came before it, these are the next: in older kernels one for the past, in newer ones the first
                // that is not over when it begins.
                sys::sleep_until([0, 1]);
                SHORT.into_iter().for_each(sys::sleep);
            }
        }
        sys::run_anywhere();
    }
}
