//! The thread that raises a run's interrupts: at a rate, or one whenever the guest asks.

use std::time::{Duration, Instant};

use vmm_sys_util::eventfd::EventFd;

use crate::scenario::{GuestGone, GuestView};

/// When the interrupts of a run come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// This number a second, or fewer if the host cannot keep up: each waits until the guest has taken the one
    /// before.
    Rate(u32),
    /// One each time that the guest asks for it, so that the number of exits does not depend on time.
    Lockstep,
}

/// The rest of a wait below this is spun, because a sleep takes longer than it is asked to.
const SPIN: Duration = Duration::from_micros(200);

/// Raises `ops` interrupts, about `rate` a second, after the guest has become ready for more than `ready`
/// runs.
pub(super) fn at_rate(
    view: &GuestView,
    event: &EventFd,
    rate: u32,
    (ops, ready): (u64, u64),
) -> Result<(), GuestGone> {
    view.wait(|| view.ready() > ready)?;
    let period = Duration::from_secs(1) / rate.max(1);
    let mut next = Instant::now();
    let first = view.interrupts();
    for taken in first..first + ops {
        next = Instant::now().max(next + period);
        let left = next.saturating_duration_since(Instant::now());
        if left > SPIN {
            std::thread::sleep(left - SPIN);
        }
        view.wait(|| Instant::now() >= next)?;
        signal(event);
        view.wait(|| view.interrupts() > taken)?;
    }
    Ok(())
}

/// Raises one interrupt for each ring of `doorbell`, until the run is over and another thread rings.
pub(super) fn in_lockstep(view: &GuestView, event: &EventFd, doorbell: &EventFd) {
    while doorbell.read().is_ok() && !view.is_over() {
        signal(event);
    }
}

/// Signals an eventfd whose counter is near zero, so that the write neither blocks nor fails.
pub(super) fn signal(event: &EventFd) {
    let _ = event.write(1);
}
