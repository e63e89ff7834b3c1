//! What a preparation that is interrupted must not leave behind: its unfinished folders, and the program that it
//! runs. The thread that prepares registers them here; the thread that handles signals removes and ends them.
//!
//! A process that is killed handles no signal: each program has a shell next to it, which ends it when this process is gone.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, io, thread};

use rustix::process::{Pid, Signal, kill_process_group};

static UNFINISHED: Mutex<UnfinishedWork> = Mutex::new(UnfinishedWork {
    folders: Vec::new(),
    child: None,
    abandoned: false,
});

struct UnfinishedWork {
    folders: Vec<PathBuf>,
    child: Option<Pid>,
    abandoned: bool,
}

/// How often a folder is removed again into which a program still writes.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// Runs the program that the arguments are, and kills the process group at the end of standard input: nothing is written there,
/// and the kernel closes it with this process. The program itself could ask for a signal then (`PR_SET_PDEATHSIG`), but
/// what it has started would not get it.
const ATTENDED: &str = r#"exec 3<&0 </dev/null
{ read -r _ <&3; kill -s KILL 0; } >/dev/null 2>&1 &
attendant=$!
"$@" 3<&-
status=$?
exec 2>/dev/null
kill -s KILL "$attendant"
wait "$attendant"
exit "$status""#;

/// Registers a folder. One that has been renamed or removed since is no matter.
pub(crate) fn folder(path: PathBuf) {
    lock().folders.push(path);
}

/// Starts a program, without standard input, and registers it until the second result is dropped, before which the first must
/// not be waited for. It has its own process group, so that what it has started can be ended too: a build goes on
/// without its first `make`. A program that is not there ends with the status 127, which is the shell's.
pub(crate) fn spawn(
    command: &Command,
    stdout: impl Into<Stdio>,
    stderr: impl Into<Stdio>,
) -> io::Result<(Child, UnfinishedProgram)> {
    let mut attended = Command::new("/bin/sh");
    attended
        .args(["-c", ATTENDED, "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => attended.env(name, value),
            None => attended.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        attended.current_dir(folder);
    }
    let mut child = attended
        .stdin(Stdio::piped())
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0)
        .spawn()?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    lock().child = group;
    let running = UnfinishedProgram {
        group,
        _open: child.stdin.take(),
    };
    Ok((child, running))
}

/// A registered program.
pub(crate) struct UnfinishedProgram {
    group: Option<Pid>,
    /// The shell kills the group when this is closed.
    _open: Option<ChildStdin>,
}

impl UnfinishedProgram {
    /// Kills the program with all that it has started.
    pub(crate) fn kill(&self) {
        kill_group(self.group);
    }
}

fn kill_group(group: Option<Pid>) {
    if let Some(group) = group {
        // Its leader has not been waited for yet, so the number is still its own.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

impl Drop for UnfinishedProgram {
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
    kill_group(unfinished.child);
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

fn lock() -> MutexGuard<'static, UnfinishedWork> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}
