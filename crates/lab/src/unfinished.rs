//! What a preparation that is interrupted must not leave behind: its unfinished folders, and the program that it
//! runs. The thread that prepares registers them here; the thread that handles signals removes and ends them.

use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

static UNFINISHED: Mutex<Unfinished> = Mutex::new(Unfinished {
    folders: Vec::new(),
    child: None,
    abandoned: false,
});

struct Unfinished {
    folders: Vec<PathBuf>,
    child: Option<Pid>,
    abandoned: bool,
}

/// How often a folder is removed again into which a program still writes.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// Registers a folder. One that has been renamed or removed since is no matter.
pub(crate) fn folder(path: PathBuf) {
    lock().folders.push(path);
}

/// Registers a running program until the result is dropped, before which it must not be waited for. It leads its own process
/// group, so that what it has started can be ended too: a build goes on without its first `make`.
pub(crate) fn program(child: &Child) -> Running {
    lock().child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Running(())
}

/// A registered program.
pub(crate) struct Running(());

impl Drop for Running {
    fn drop(&mut self) {
        let mut unfinished = lock();
        unfinished.child = None;
        if unfinished.abandoned {
            drop(unfinished);
            // The process ends now, and what a killed program said is no matter.
            loop {
                thread::park();
            }
        }
    }
}

/// Kills the running program with all that it has started, and removes all unfinished folders. The caller ends the process then.
pub fn abandon() {
    let mut unfinished = lock();
    unfinished.abandoned = true;
    if let Some(pid) = unfinished.child {
        // It has not been waited for yet, so the number is still its own.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    for folder in &unfinished.folders {
        for _ in 0..ATTEMPTS {
            let _ = fs::remove_dir_all(folder);
            if !folder.exists() {
                break;
            }
            thread::sleep(PAUSE);
        }
    }
}

fn lock() -> MutexGuard<'static, Unfinished> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}
