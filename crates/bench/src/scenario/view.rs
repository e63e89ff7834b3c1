//! What a thread that raises interrupts sees of the guest: words in the page of parameters.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use vmbell_guest::{PARAMETERS, offset};

/// The guest's words, and whether the guest still runs.
#[derive(Debug)]
pub(crate) struct GuestView {
    memory: GuestMemoryMmap,
    over: AtomicBool,
}

/// How long after the guest's end its effects may still be on their way to a waiting thread.
const LINGER: Duration = Duration::from_millis(500);

/// The guest has ended, and what a thread waited for will not happen.
#[derive(Debug, thiserror::Error)]
#[error("the guest ended before its interrupts: it took one twice, or one was not raised for it")]
pub(crate) struct GuestGone;

impl GuestView {
    pub(crate) fn new(memory: &GuestMemoryMmap) -> Self {
        Self {
            memory: memory.clone(),
            over: AtomicBool::new(false),
        }
    }

    pub(crate) fn ready(&self) -> u64 {
        self.word(offset::READY)
    }

    pub(crate) fn interrupts(&self) -> u64 {
        self.word(offset::INTERRUPTS)
    }

    /// The time stamp at the first instruction of the latest interrupt handler.
    pub(crate) fn entered(&self) -> u64 {
        self.word(offset::ENTERED)
    }

    fn word(&self, offset: usize) -> u64 {
        // The page is RAM for as long as the guest exists; a failed read would show as wrong counts.
        let address = GuestAddress(PARAMETERS.0 + offset as u64);
        self.memory.load(address, Acquire).unwrap_or_default()
    }

    /// Spins until `happened` returns true. Fails if that has not happened within [`LINGER`] after the guest's end.
    pub(crate) fn wait(&self, happened: impl Fn() -> bool) -> Result<(), GuestGone> {
        self.wait_by(Instant::now, happened)
    }

    fn wait_by(
        &self,
        now: impl Fn() -> Instant,
        happened: impl Fn() -> bool,
    ) -> Result<(), GuestGone> {
        let mut ended: Option<Instant> = None;
        while !happened() {
            if self.over.load(Relaxed) {
                let now = now();
                if now.duration_since(*ended.get_or_insert(now)) >= LINGER {
                    return Err(GuestGone);
                }
            }
            // The thread that delivers the interrupt may need this CPU.
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Marks the beginning of a run: from now on there is a guest to wait for.
    pub(crate) fn begin(&self) {
        self.over.store(false, Relaxed);
    }

    /// Whether the guest has ended, or has not begun.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Acquire)
    }

    /// Marks the guest as ended, done or not: it takes no more interrupts.
    pub(crate) fn end(&self) {
        self.over.store(true, Release);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn view() -> GuestView {
        let ranges = [(PARAMETERS, 0x1000)];
        GuestView::new(&GuestMemoryMmap::from_ranges(&ranges).unwrap())
    }

    /// A test clock: the time that has passed since `start`.
    #[derive(Default)]
    struct Time(Cell<Duration>);

    impl Time {
        fn wait(&self, view: &GuestView, happened: impl Fn() -> bool) -> Result<(), GuestGone> {
            let start = Instant::now();
            let now = || {
                self.0.set(self.0.get() + LINGER / 20);
                start + self.0.get()
            };
            view.wait_by(now, happened)
        }
    }

    #[test]
    fn nobody_waits_for_a_guest_that_has_ended() {
        let (view, time) = (view(), Time::default());
        view.begin();
        view.end();
        assert!(time.wait(&view, || view.interrupts() > 0).is_err());
        assert_eq!(time.0.get(), LINGER + LINGER / 20);
    }

    #[test]
    fn what_comes_after_the_guests_end_is_still_seen() {
        let (view, time) = (view(), Time::default());
        view.begin();
        view.end();
        let happened = || time.0.get() >= LINGER / 10 * 9;
        assert!(time.wait(&view, happened).is_ok());
    }

    #[test]
    fn a_new_run_waits_again() {
        let view = view();
        view.begin();
        view.end();
        view.begin();
        let looks = Cell::new(0);
        let happened = || {
            looks.set(looks.get() + 1);
            looks.get() > 100
        };
        assert!(Time::default().wait(&view, happened).is_ok());
    }
}
