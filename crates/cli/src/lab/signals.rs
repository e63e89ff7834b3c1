//! SIGTERM, SIGINT and SIGHUP of `vmbell lab`: what a preparation has not finished is removed, and then the signal
//! kills the process as it would have before. A thread of its own does that, because a handler may do next to
//! nothing. A run has nothing to remove: its files have no names, and QEMU dies with its parent.

use std::io;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::super::interrupt;

const POLL: Duration = Duration::from_millis(50);

/// Handles the signals from now on, except for those that are ignored.
pub(super) fn clean_up() -> io::Result<()> {
    let interrupted = interrupt::catch()?;
    thread::Builder::new().spawn(|| {
        while !interrupted.load(Ordering::Acquire) {
            thread::sleep(POLL);
        }
        vmbell_lab::abandon();
        interrupt::raise();
    })?;
    Ok(())
}
