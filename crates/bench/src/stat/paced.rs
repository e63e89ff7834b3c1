//! The thread that raises the interrupts of a workload: at a rate, or one whenever the guest asks.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;

use vmbell::guest::offset;
use vmbell::machine::PARAMETERS;

/// The rest of a wait below this is spun, because a sleep takes longer than it is asked to.
const SPIN: Duration = Duration::from_micros(200);

/// Raises interrupts, on a thread of its own.
#[derive(Debug)]
pub(super) struct Raiser<'r> {
    pub(super) memory: &'r GuestMemoryMmap,
    /// The eventfd of the irqfd.
    pub(super) event: &'r EventFd,
    /// The eventfd that the guest rings when it wants an interrupt; reading it blocks.
    pub(super) doorbell: &'r EventFd,
    /// Whether the guest has stopped.
    pub(super) over: &'r AtomicBool,
}

impl Raiser<'_> {
    fn word(&self, offset: usize) -> u64 {
        // The page is RAM for as long as the guest exists; a failed read would show as wrong counts.
        let address = GuestAddress(PARAMETERS.0 + offset as u64);
        self.memory.load(address, Acquire).unwrap_or_default()
    }

    /// How many interrupts the guest has taken.
    pub(super) fn interrupts(&self) -> u64 {
        self.word(offset::INTERRUPTS)
    }

    /// How many runs of the guest have become ready for their interrupts.
    pub(super) fn ready(&self) -> u64 {
        self.word(offset::READY)
    }

    fn wait(&self, happened: impl Fn() -> bool) -> bool {
        while !happened() {
            if self.over.load(Relaxed) {
                return false;
            }
            // The guest and this thread may have one CPU between them.
            std::thread::yield_now();
        }
        true
    }

    /// Raises `rate` interrupts a second for `time`, but none before the guest has taken the one
    /// before; then one more, with which the guest ends its run.
    pub(super) fn paced(&self, ready: u64, rate: u32, time: Duration) -> io::Result<()> {
        if !self.wait(|| self.ready() > ready) {
            return Ok(());
        }
        let period = Duration::from_secs(1) / rate.max(1);
        let started = Instant::now();
        let mut next = started;
        while started.elapsed() < time {
            next = Instant::now().max(next + period);
            self.sleep_until(next);
            let taken = self.interrupts();
            self.event.write(1)?;
            if !self.wait(|| self.interrupts() > taken) {
                return Ok(());
            }
        }
        let last = self.interrupts() + 1;
        let target = GuestAddress(PARAMETERS.0 + offset::TARGET as u64);
        self.memory
            .store(last, target, Release)
            .map_err(io::Error::other)?;
        self.event.write(1)
    }

    fn sleep_until(&self, when: Instant) {
        loop {
            let left = when.saturating_duration_since(Instant::now());
            if left.is_zero() || self.over.load(Relaxed) {
                return;
            }
            if left > SPIN {
                std::thread::sleep(left - SPIN);
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Raises one interrupt for each ring of the guest, until the run is over.
    pub(super) fn lockstep(&self) -> io::Result<()> {
        loop {
            self.doorbell.read()?;
            if self.over.load(Acquire) {
                return Ok(());
            }
            self.event.write(1)?;
        }
    }
}
