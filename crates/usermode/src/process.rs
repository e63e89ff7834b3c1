//! The sandbox's process: it is killed and reaped when its owner drops it. A thread (`vmbell-watcher`) waits
//! for the end of all sandboxes, with a pidfd of each.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use stub::layout::SharedState;

use super::error::{UsermodeError, describe_exit_status};
use super::mapping::Mapping;
use super::wait::{Backoff, STALL_TIMEOUT, futex_wake};
use vmbell::sync::Mutex;
use vmbell::thread::{EventLoop, EventSet, ThreadKind, Token};
use vmbell_hypervisor::Error;

/// A started sandbox process, whose end the watcher thread waits for.
#[derive(Debug)]
pub struct Process {
    pid: libc::pid_t,
    ended: Arc<OnceLock<ExitStatus>>,
    /// Whether the sandbox became ready. After that guest code may have run.
    started: AtomicBool,
    /// Why the monitor killed the process, if it did because of something that the sandbox did.
    kill_reason: OnceLock<&'static str>,
    watched: Option<Token>,
    /// Held by the thread that has the sandbox stopped.
    pub(super) stops: Mutex<()>,
}

impl Process {
    /// Lets the watcher thread wait for the end of the child `pid`, which no other code may reap. At the end
    /// that thread hands every vCPU over to the monitor, so that no waiter sleeps on.
    pub fn watch(pid: libc::pid_t, shared: &Arc<Mapping<SharedState>>) -> Result<Self, Error> {
        let mut process = Self {
            pid,
            ended: Arc::default(),
            started: AtomicBool::new(false),
            kill_reason: OnceLock::new(),
            watched: None,
            stops: Mutex::default(),
        };
        // SAFETY: no pointers; the process is our child and not reaped.
        let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let pidfd = i32::try_from(pidfd).unwrap_or(-1);
        if pidfd < 0 {
            return Err(Error::last(
                "watch the sandbox process (pidfd_open, Linux 5.3)",
            ));
        }
        // SAFETY: a new descriptor that nothing else owns.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        let (ended, shared) = (Arc::clone(&process.ended), Arc::clone(shared));
        let pidfd = Arc::new(pidfd);
        let theirs = Arc::clone(&pidfd);
        let watch = move || {
            let Some(status) = ended_with(&theirs) else {
                return false;
            };
            let _ = ended.set(status);
            for run in &shared.runs {
                // No thread of the sandbox is left to hand a vCPU over. The word must change: a waiter that read
                // it just before would otherwise sleep through the wake-up.
                let _ = run.thread_id.compare_exchange(0, 1, SeqCst, Relaxed);
                run.exit_handover.sequence.fetch_add(1, SeqCst);
                futex_wake(&run.thread_id);
                futex_wake(&run.exit_handover.sequence);
            }
            false
        };
        let failed = Error::system("watch the sandbox process");
        // Once: the pidfd of a process that has ended stays readable.
        let edge = EventSet::IN | EventSet::EDGE_TRIGGERED;
        let watched = watcher().map_err(failed)?.add(pidfd, edge, watch);
        process.watched = Some(watched.map_err(failed)?);
        Ok(process)
    }

    /// How the process ended, in words; `None` while it runs.
    pub fn ending(&self) -> Option<String> {
        let status = self.ended.get()?;
        Some(match self.kill_reason.get() {
            Some(reason) => format!("killed by the monitor: {reason}"),
            None => describe_exit_status(*status, self.started.load(Relaxed)),
        })
    }

    /// The sandbox is ready. From here on its guest may end it with any exit code.
    pub fn set_started(&self) {
        self.started.store(true, Relaxed);
    }

    /// Whether the process has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    /// The error of a wait for the sandbox's start that failed with `source`: it says how the sandbox ended, if
    /// it has ended.
    pub fn start_error(&self, operation: &'static str, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::TimedOut => return UsermodeError::StartTimeout { source }.into(),
            io::ErrorKind::UnexpectedEof => {}
            _ => return Error::System { operation, source },
        }
        match self.await_end().then(|| self.ending()).flatten() {
            Some(ending) => UsermodeError::Start { ending }.into(),
            None => Error::System { operation, source },
        }
    }

    /// Waits for the end of a process whose descriptors are closed, and returns whether it has ended. The watcher thread
    /// learns of the end later than a thread that sees them close, and on a busy host much later.
    pub fn await_end(&self) -> bool {
        let (deadline, mut backoff) = (Instant::now() + STALL_TIMEOUT, Backoff::default());
        while !self.has_ended() {
            if Instant::now() > deadline {
                return false;
            }
            backoff.pause();
        }
        true
    }

    /// The CPU time that all threads of the process have used; 0 once the process is reaped.
    pub fn cpu_time(&self) -> Duration {
        // The kernel's own number of the clock of a process (`include/linux/posix-timers_types.h`, CPUCLOCK_SCHED).
        let clock = (!self.pid << 3) | 2;
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` outlives the call, which fills it in or leaves it as it is.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
    }

    /// Whether all threads of the sandbox are stopped or have ended. The state is read with WNOWAIT, which does not
    /// consume the report, so the answer is the present state and not an earlier stop.
    pub fn is_stopped(&self) -> io::Result<bool> {
        let pid = self.pid.cast_unsigned();
        let states = libc::WSTOPPED | libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
        loop {
            // SAFETY: all-zero bytes are a valid siginfo_t, which waitid fills in.
            let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
            // SAFETY: `info` outlives the call; the process is our child and not reaped.
            if unsafe { libc::waitid(libc::P_PID, pid, &raw mut info, states) } >= 0 {
                // SAFETY: waitid succeeded, so the fields of SIGCHLD are set; without a state to report the process
                // number stays 0.
                return Ok(unsafe { info.si_pid() } != 0);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// The process number, valid as long as `self` lives.
    pub fn pid(&self) -> libc::pid_t {
        self.pid
    }

    /// Kills the process. [`ending`](Self::ending) gives `reason`.
    pub fn kill_with_reason(&self, reason: &'static str) {
        let _ = self.kill_reason.set(reason);
        self.kill();
    }

    fn kill(&self) {
        // SAFETY: no pointers; the process is ours and not reaped. It may have ended already.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }

    fn reap(&self) {
        loop {
            // SAFETY: no pointers; the status is not asked for.
            let result = unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), libc::__WALL) };
            if result >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return;
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if let (Some(token), Ok(watcher)) = (self.watched, watcher()) {
            // A call that is still running owns what it needs, and nothing waits for it.
            let _ = watcher.remove(token);
        }
        // The process is reaped last: until then no other process can get its number.
        self.reap();
    }
}

/// The thread that waits for the ends of all sandboxes. The first one starts it, and it lives as long as the monitor does.
fn watcher() -> io::Result<&'static EventLoop> {
    static WATCHER: OnceLock<EventLoop> = OnceLock::new();
    if let Some(watcher) = WATCHER.get() {
        return Ok(watcher);
    }
    let new = EventLoop::new(ThreadKind::Device, "vmbell-watcher")?;
    // If two threads started one at the same time, the second is dropped here.
    Ok(WATCHER.get_or_init(|| new))
}

/// How a child has ended, without reaping it; `None` if it is still running.
fn ended_with(pidfd: &OwnedFd) -> Option<ExitStatus> {
    loop {
        // SAFETY: all-zero bytes are a valid siginfo_t, which waitid fills in.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let id = pidfd.as_raw_fd().cast_unsigned();
        let options = libc::WEXITED | libc::WNOWAIT | libc::WNOHANG;
        // SAFETY: `info` outlives the call; `pidfd` is open and names a child of this process.
        let result = unsafe { libc::waitid(libc::P_PIDFD, id, &raw mut info, options) };
        if result < 0 {
            if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Some(ExitStatus::from_raw(libc::SIGKILL));
        }
        // If no child has ended, waitid leaves the zeroes.
        if info.si_signo == 0 {
            return None;
        }
        // SAFETY: waitid succeeded, so the fields of SIGCHLD are set.
        let status = unsafe { info.si_status() };
        let raw = if info.si_code == libc::CLD_EXITED {
            (status & 0xff) << 8
        } else {
            status & 0x7f
        };
        return Some(ExitStatus::from_raw(raw));
    }
}
