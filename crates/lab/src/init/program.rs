//! Runs the job's program, in a separate cgroup if the job says so, and copies its streams to the host.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, Signal, kill_process};

use super::control;
use crate::boot::ProgramStream;
use crate::job::{InitJob, InitMessage, ProgramEnding, port};

/// A deterministic program starts no earlier than this after the boot: until then the kernel calibrates clocks.
const QUIET: Duration = Duration::from_secs(3);

/// Whether the host has asked to kill the program.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Whether the readers of the program's standard output and of its standard error have gone.
static UNREAD: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];

/// The program, while it runs.
static RUNNING: Mutex<Option<Pid>> = Mutex::new(None);

/// Asks the program to end, as `timeout(1)` does. Its children are not asked: the program may need them.
pub fn end() {
    if let Some(program) = *running() {
        let _ = kill_process(program, Signal::TERM);
    }
}

/// Closes the program's standard output or standard error after the next write, so that a later write fails.
pub fn unread(stream: ProgramStream) {
    if let Some(unread) = UNREAD.get(stream as usize) {
        unread.store(true, Ordering::Relaxed);
    }
}

fn running() -> MutexGuard<'static, Option<Pid>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills the program, so that `run` returns with its output so far.
pub fn stop() {
    STOPPED.store(true, Ordering::SeqCst);
    kill_others();
}

/// Runs the program to its end. Returns how it ended and how many bytes it wrote to standard output and error.
pub fn run(job: &InitJob) -> io::Result<(ProgramEnding, [u64; 2])> {
    fs::create_dir_all(&job.directory)?;
    let mut command = Command::new(&job.program);
    if let Some((name, arguments)) = job.arguments.split_first() {
        command.arg0(name).args(arguments);
    }
    let stdin = if job.stdin {
        Stdio::from(control::open_port(port::STDIN)?)
    } else {
        Stdio::null()
    };
    command
        .env_clear()
        .envs(job.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&job.directory);
    let (stdout, stderr) = (
        control::open_port(port::STDOUT)?,
        control::open_port(port::STDERR)?,
    );
    control::send(&InitMessage::Started)?;
    if job.deterministic {
        wait_for_whole_second(Duration::from_nanos(job.phase));
    }
    command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let started = if job.cgroup {
        spawn_in_cgroup(&mut command)
    } else {
        command.spawn()
    };
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            return Ok((
                ProgramEnding::Failed(format!(
                    "L{}: cannot run {}: {error}",
                    job.depth,
                    job.program.display()
                )),
                [0; 2],
            ));
        }
    };
    let copies = [
        (
            child.stdout.take().map(boxed),
            stdout,
            ProgramStream::Stdout,
        ),
        (
            child.stderr.take().map(boxed),
            stderr,
            ProgramStream::Stderr,
        ),
    ]
    .map(|(pipe, port, stream)| {
        let unread = &UNREAD[stream as usize];
        thread::spawn(move || pipe.map_or(Ok(0), |pipe| copy(pipe, port, unread)))
    });
    *running() = Some(Pid::from_child(&child));
    if STOPPED.load(Ordering::SeqCst) {
        // The host asked to stop the program before it had started.
        kill_others();
    }
    let status = child.wait()?;
    *running() = None;
    // Processes that the program left running would keep the pipes open.
    kill_others();
    let mut sent = [0; 2];
    for (count, copy) in sent.iter_mut().zip(copies) {
        *count = copy
            .join()
            .map_err(|_| io::Error::other("a copying thread panicked"))??;
    }
    Ok((ending(status), sent))
}

fn boxed(pipe: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(pipe)
}

/// Sleeps until `phase` after the next whole second. Opening the ports has taken a time that depends on the host. A
/// start at a fixed phase puts the timer's ticks at the same place in every run. In deterministic mode the sleep takes
/// no host time.
pub(super) fn wait_for_whole_second(phase: Duration) {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now = Duration::new(
        now.tv_sec.unsigned_abs(),
        u32::try_from(now.tv_nsec).unwrap_or_default(),
    );
    let start = QUIET.max(Duration::from_secs(now.as_secs() + 1));
    thread::sleep(start + phase - now);
}

/// The root cgroup, and the program's cgroup in it (Linux Documentation/admin-guide/cgroup-v2.rst).
const ROOT: &str = "/sys/fs/cgroup";
const PROGRAM: &str = "/sys/fs/cgroup/program";

/// Starts the program in a separate cgroup, whose memory the kernel counts. The cgroup stays until the machine ends.
fn spawn_in_cgroup(command: &mut Command) -> io::Result<Child> {
    make_cgroup().map_err(|error| {
        io::Error::other(format!("this kernel counts no memory of cgroups: {error}"))
    })?;
    // A child starts in the cgroup of its parent.
    enter(PROGRAM)?;
    let child = command.spawn();
    enter(ROOT)?;
    child
}

fn make_cgroup() -> io::Result<()> {
    mount("cgroup2", ROOT, "cgroup2", MountFlags::empty(), None)?;
    fs::write(Path::new(ROOT).join("cgroup.subtree_control"), "+memory")?;
    fs::create_dir(PROGRAM)
}

/// Moves this process into a cgroup.
fn enter(cgroup: &str) -> io::Result<()> {
    fs::write(Path::new(cgroup).join("cgroup.procs"), "0")
}

/// Copies until the pipe ends or the port has no reader. Returns the number of bytes.
fn copy(
    mut pipe: Box<dyn Read + Send>,
    mut port: fs::File,
    unread: &AtomicBool,
) -> io::Result<u64> {
    let mut total = 0;
    let mut piece = vec![0; 64 << 10];
    loop {
        let length = pipe.read(&mut piece)?;
        if length == 0 || unread.load(Ordering::Relaxed) {
            return Ok(total);
        }
        port.write_all(&piece[..length])?;
        total += length as u64;
    }
}

fn ending(status: ExitStatus) -> ProgramEnding {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProgramEnding::Exited(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
        (None, Some(libc::SIGKILL)) if STOPPED.load(Ordering::SeqCst) => ProgramEnding::Stopped,
        (None, Some(signal)) => ProgramEnding::Signalled {
            signal,
            core: status.core_dumped(),
        },
        (None, None) => ProgramEnding::Failed(format!("unknown wait status {status}")),
    }
}

/// Kills all other processes, several times because processes may fork meanwhile.
fn kill_others() {
    for _ in 0..3 {
        let list = fs::read_dir("/proc")
            .map(|list| list.flatten().collect())
            .unwrap_or_else(|_| Vec::new());
        let pids = list
            .iter()
            .filter_map(|item| item.file_name().to_str()?.parse::<i32>().ok());
        // Kernel threads ignore signals.
        for pid in pids.filter(|pid| *pid != 1).filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
