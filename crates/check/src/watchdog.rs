//! Ends the process, with a reason, if the code under test never comes back to the search.
//!
//! A task cannot be interrupted while it waits for a mutex or another thread, or loops without an access to the shared
//! memory. A task that allocates without limit would use up the machine's memory. A separate thread checks for both.

use std::fs;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::signals;

/// The number of steps of all searches.
static STEPS: AtomicU64 = AtomicU64::new(0);
/// The name of the task that runs.
static TASK: Mutex<String> = Mutex::new(String::new());

/// Counts a step of a task.
pub(crate) fn step() {
    STEPS.fetch_add(1, Ordering::Relaxed);
}

/// Notes that a task begins to run.
pub(crate) fn runs(task: &str) {
    let mut running = TASK.lock().unwrap_or_else(PoisonError::into_inner);
    if *running != task {
        running.clear();
        running.push_str(task);
    }
}

/// The signal of the last crash.
static CRASHED: AtomicI32 = AtomicI32::new(0);

/// Notes that a task crashes. If the task holds a lock, the search may then wait for that lock forever.
pub(crate) fn crashes(signal: i32) {
    CRASHED.store(signal, Ordering::Relaxed);
}

/// The thread that checks for progress and memory.
#[derive(Debug)]
pub(crate) struct Watchdog {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Checks once a second. `patience` is how many seconds a task may run without a step, `memory` how many bytes
    /// the process may use.
    pub(crate) fn new(patience: u64, memory: u64) -> Watchdog {
        let done = Arc::new(AtomicBool::new(false));
        let ended = done.clone();
        CRASHED.store(0, Ordering::Relaxed);
        let thread = thread::Builder::new()
            .name("vmbell-check watchdog".to_string())
            .spawn(move || watch(&ended, patience, memory))
            .ok();
        Watchdog { done, thread }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread does nothing that panics.
            let _ = thread.join();
        }
    }
}

fn watch(done: &AtomicBool, patience: u64, memory: u64) {
    let (mut last, mut idle) = (0, 0);
    loop {
        thread::park_timeout(Duration::from_secs(1));
        if done.load(Ordering::Acquire) {
            return;
        }
        let steps = STEPS.load(Ordering::Relaxed);
        idle = if steps == last { idle + 1 } else { 0 };
        last = steps;
        let task = || TASK.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let signal = CRASHED.load(Ordering::Relaxed);
        if idle >= patience && signal != 0 {
            end(&format!(
                "{} has taken no step for {patience} s, after a task crashed with {}: did that leave a mutex locked?",
                task(),
                signals::name(signal)
            ));
        }
        if idle >= patience {
            end(&format!(
                "{} has taken no step for {patience} s: does it loop without an access to the shared memory, or wait for a \
                 mutex or another thread?",
                task()
            ));
        }
        if 4096 * resident() > memory {
            end(&format!(
                "the process uses more than {} MiB of memory while {} runs: does it allocate without end?",
                memory >> 20,
                task()
            ));
        }
    }
}

/// The pages of this process that are in memory.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0)
}

/// Prints why the process ends if a step of the search crashes on a task's stack. Called by a signal handler.
#[allow(unsafe_code)]
pub(crate) fn overflowed() {
    let reason = "vmbell-check: a step of a task crashed in the checker: did the task's stack of 256 KiB overflow?\n";
    // SAFETY: the bytes are a constant; `write` only reads them.
    unsafe { libc::write(libc::STDERR_FILENO, reason.as_ptr().cast(), reason.len()) };
}

fn end(reason: &str) -> ! {
    eprintln!("vmbell-check: {reason}");
    process::abort();
}
