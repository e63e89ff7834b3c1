//! Ends a guest that spins forever while instructions are counted. Waiting for its time limit would take minutes of the
//! host's time (docs/emulator-bugs.md).
//!
//! A Linux guest whose CPU is busy sets its timer at each tick, which causes an exit. A guest that runs for a whole
//! [`PERIOD`] without such an exit has its interrupts off and waits for an event that never comes. A thread of the
//! process that started the VMM checks KVM's counts in debugfs.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use procfs::process::{Process, Task};
use rustix::process::{Pid, Signal, kill_process};

/// How long a guest may run without an exit. This is many ticks.
pub const PERIOD: Duration = Duration::from_millis(250);
/// Where KVM has a folder for each guest, named after the thread that created it.
const KVM: &str = "/sys/kernel/debug/kvm";

/// The thread that watches a guest. It stops when the value is dropped.
#[derive(Debug)]
pub struct Watch {
    found: Arc<AtomicBool>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The work of a guest and its VMM so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WorkDone {
    /// Exits, not counting those caused by the host's interrupts.
    exits: u64,
    /// How long vCPUs ran the guest's own code, in hundredths of a second, the unit of the kernel's counts.
    ran: u64,
}

impl Watch {
    /// Starts to watch the guest of this VMM. The VMM must not be waited for before the watch is dropped.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub fn start(process: u32) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let found = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&found);
        let look = move || {
            let mut before = None;
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                // A guest that does not exist yet, or has ended, has no counts.
                let now = WorkDone::of(process).ok();
                if before
                    .zip(now)
                    .is_some_and(|(before, now)| spun(before, now))
                {
                    theirs.store(true, Ordering::Release);
                    end(process);
                    return;
                }
                before = now;
            }
        };
        let thread = std::thread::Builder::new().name("spin".to_owned());
        Ok(Self {
            found,
            stop: Some(stop),
            thread: Some(thread.spawn(look)?),
        })
    }

    /// Returns whether the guest spun and was ended.
    pub fn found(&self) -> bool {
        self.found.load(Ordering::Acquire)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The thread cannot have panicked, and returns nothing.
            let _ = thread.join();
        }
    }
}

impl WorkDone {
    fn of(process: u32) -> io::Result<Self> {
        let threads = threads(process)?;
        let number = |path: PathBuf| -> io::Result<u64> {
            let text = fs::read_to_string(path)?;
            text.trim().parse().map_err(io::Error::other)
        };
        let mut exits = None;
        for guest in fs::read_dir(KVM)? {
            let guest = guest?;
            let name = guest.file_name();
            let maker = name.to_str().and_then(|name| name.split('-').next());
            let maker = maker.and_then(|maker| maker.parse().ok());
            if maker.is_some_and(|maker| threads.contains(&maker)) {
                let count = |what| number(guest.path().join(what));
                let own = count("exits")?.saturating_sub(count("irq_exits")?);
                exits = Some(exits.unwrap_or_default() + own);
            }
        }
        let process = process.try_into().map_err(io::Error::other)?;
        let stat = Process::new(process).and_then(|process| process.stat());
        Ok(Self {
            exits: exits.ok_or(io::ErrorKind::NotFound)?,
            ran: stat
                .map_err(io::Error::other)?
                .guest_time
                .unwrap_or_default(),
        })
    }
}

/// Returns whether almost nothing but the guest's own code ran between these two readings, one period apart.
fn spun(before: WorkDone, now: WorkDone) -> bool {
    let ran = Duration::from_millis(10 * now.ran.saturating_sub(before.ran));
    now.exits == before.exits && ran > PERIOD * 3 / 4
}

/// Returns the threads of a process.
///
/// # Errors
///
/// If there is no such process.
pub fn threads(process: u32) -> io::Result<BTreeSet<u32>> {
    let process = Process::new(process.try_into().map_err(io::Error::other)?);
    let threads = process.and_then(|process| process.tasks()?.collect::<Result<Vec<_>, _>>());
    let id = |thread: Task| thread.tid.unsigned_abs();
    Ok(threads
        .map_err(io::Error::other)?
        .into_iter()
        .map(id)
        .collect())
}

fn end(process: u32) {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // This fails if the VMM has just ended.
        let _ = kill_process(pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: WorkDone = WorkDone {
        exits: 7,
        ran: 1000,
    };

    fn later(exits: u64, ran: Duration) -> WorkDone {
        WorkDone {
            exits: BEFORE.exits + exits,
            ran: BEFORE.ran + u64::try_from(ran.as_millis() / 10).unwrap(),
        }
    }

    #[test]
    fn guest_that_only_ran_has_spun_and_one_that_left_or_slept_has_not() {
        assert!(spun(BEFORE, later(0, PERIOD)));
        assert!(!spun(BEFORE, later(1, PERIOD)));
        assert!(!spun(BEFORE, later(0, PERIOD / 2)));
    }

    #[test]
    fn the_threads_of_a_process_are_found() {
        let own = threads(std::process::id()).unwrap();
        assert!(own.contains(&std::process::id()));
        assert!(threads(u32::MAX).is_err());
    }

    #[test]
    fn process_without_a_guest_has_no_counts_and_is_left_alone() {
        assert!(WorkDone::of(std::process::id()).is_err());
        let watch = Watch::start(std::process::id()).unwrap();
        std::thread::sleep(PERIOD * 3);
        assert!(!watch.found());
    }
}
