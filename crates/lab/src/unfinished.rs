//! What an interrupted preparation must not leave behind: its unfinished folders, and the program that it is running.
//! The preparing thread registers them here; the thread that handles signals removes the folders and kills the program.
//!
//! A killed process handles no signals. So a shell runs alongside each program, and kills it when this process is gone.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, io, thread};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

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

/// How often to try again to remove a folder to which a program still writes.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// Runs the program given by the arguments, and kills the process group when standard input ends. Nothing is written
/// there; the kernel closes it when this process ends. The program itself could ask for a signal then
/// (`PR_SET_PDEATHSIG`), but the processes that it started would not get it.
const ATTENDED: &str = r#"exec 3<&0 </dev/null
{ read -r _ <&3; kill -s KILL 0; } >/dev/null 2>&1 &
attendant=$!
"$@" 3<&-
status=$?
exec 2>/dev/null
kill -s KILL "$attendant"
wait "$attendant"
exit "$status""#;

/// Registers a folder. It does not matter if the folder is later renamed or removed.
pub(crate) fn folder(path: PathBuf) {
    lock().folders.push(path);
}

/// Starts a program without standard input, and registers it until [`UnfinishedProgram::wait`]. The program has its own
/// process group, so that its children are killed with it. Otherwise a build would continue after its first `make` is
/// killed. If the program does not exist, the shell exits with status 127.
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
    /// The shell kills the group when this descriptor is closed.
    _open: Option<ChildStdin>,
}

impl UnfinishedProgram {
    /// Kills the program and all processes that it started.
    pub(crate) fn kill(&self) {
        kill_group(self.group);
    }

    /// Waits for the program. It is unregistered before its process number can be reused.
    pub(crate) fn wait(self, child: &mut Child) -> io::Result<ExitStatus> {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let pid = Pid::from_child(child);
        retry_on_intr(|| waitid(WaitId::Pid(pid), ended))?;
        drop(self);
        child.wait()
    }
}

fn kill_group(group: Option<Pid>) {
    if let Some(group) = group {
        // The group's leader has not been waited for, so its number cannot have been reused.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

impl Drop for UnfinishedProgram {
    fn drop(&mut self) {
        let mut unfinished = lock();
        unfinished.child = None;
        if unfinished.abandoned {
            drop(unfinished);
            // The process is about to end, so the output of a killed program does not matter.
            loop {
                thread::park();
            }
        }
    }
}

/// Kills the running program and its children, and removes all unfinished folders. The caller then ends the process.
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
