//! The sandbox's process: it is killed and reaped when its owner drops it. One thread (`vmbell-watcher`) waits for the
//! ends of all sandboxes, with a pidfd for each.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, pidfd_open, waitid,
    waitpid,
};
use stub::layout::SharedState;

use super::error::{UsermodeError, describe_exit_status};
use super::mapping::Mapping;
use super::wait::{Backoff, STALL_TIMEOUT, futex_wake};
use vmbell::sync::Mutex;
use vmbell::thread::{EventLoop, EventSet, ThreadKind, Token};
use vmbell_hypervisor::Error;

/// A started sandbox process. The watcher thread waits for its end.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    ended: Arc<OnceLock<ExitStatus>>,
    /// Whether the sandbox became ready. After that, guest code may have run.
    started: AtomicBool,
    /// Why the monitor killed the process, if it did so because of something that the sandbox did.
    kill_reason: OnceLock<&'static str>,
    watched: Option<Token>,
    /// Held by the thread that has stopped the sandbox.
    pub(super) stops: Mutex<()>,
}

impl Process {
    /// Makes the watcher thread wait for the end of the child `pid`, which no other code may reap. At the end that
    /// thread hands every vCPU over to the monitor, so that no waiter keeps sleeping.
    pub fn watch(pid: Pid, shared: &Arc<Mapping<SharedState>>) -> Result<Self, Error> {
        let mut process = Self {
            pid,
            ended: Arc::default(),
            started: AtomicBool::new(false),
            kill_reason: OnceLock::new(),
            watched: None,
            stops: Mutex::default(),
        };
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(Error::system(
            "watch the sandbox process (pidfd_open, Linux 5.3)",
        ))?;
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
        // The end is reported once only, because the pidfd of a process that has ended stays readable.
        let edge = EventSet::IN | EventSet::EDGE_TRIGGERED;
        let watched = watcher().map_err(failed)?.add(pidfd, edge, watch);
        process.watched = Some(watched.map_err(failed)?);
        Ok(process)
    }

    /// Returns how the process ended, in words; `None` while it runs.
    pub fn ending(&self) -> Option<String> {
        let status = self.ended.get()?;
        Some(match self.kill_reason.get() {
            Some(reason) => format!("killed by the monitor: {reason}"),
            None => describe_exit_status(*status, self.started.load(Relaxed)),
        })
    }

    /// Records that the sandbox is ready. From here on its guest may end it with any exit code.
    pub fn set_started(&self) {
        self.started.store(true, Relaxed);
    }

    /// Returns whether the process has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Returns the error of a wait for the sandbox's start that failed with `source`. If the sandbox has ended, the
    /// error says how.
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

    /// Waits for the end of a process whose descriptors are closed, and returns whether it has ended. The watcher
    /// thread learns of the end later than a thread that sees the descriptors close, and much later on a busy host.
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

    /// Returns the CPU time that all threads of the process have used; 0 once the process is reaped.
    pub fn cpu_time(&self) -> Duration {
        // The kernel's number for a process's CPU clock (`include/linux/posix-timers_types.h`, CPUCLOCK_SCHED).
        let clock = (!self.pid() << 3) | 2;
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` outlives the call, which fills it in or leaves it as it is.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
    }

    /// Returns whether all threads of the sandbox are stopped or have ended. The state is read with WNOWAIT, which does
    /// not consume the report, so the result is the present state and not an earlier stop.
    pub fn is_stopped(&self) -> io::Result<bool> {
        let states = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | UNREAPED;
        let states = states | WaitIdOptions::from_bits_retain(libc::__WALL.cast_unsigned());
        let state = retry_on_intr(|| waitid(WaitId::Pid(self.pid), states))?;
        Ok(state.is_some())
    }

    /// Returns the process id, valid as long as `self` lives.
    pub fn pid(&self) -> libc::pid_t {
        self.pid.as_raw_pid()
    }

    /// Sends a signal to the process, which may have ended already.
    pub(super) fn send(&self, signal: Signal) {
        let _ = kill_process(self.pid, signal);
    }

    /// Kills the process. Once it has ended, [`ending`](Self::ending) gives `reason`, or the reason of an earlier call.
    pub fn kill_with_reason(&self, reason: &'static str) {
        let _ = self.kill_reason.set(reason);
        self.send(Signal::KILL);
    }

    fn reap(&self) {
        let all = WaitOptions::from_bits_retain(libc::__WALL.cast_unsigned());
        // The status is in `ended`. Waiting for a child of this process fails only if a signal interrupts it.
        let _ = retry_on_intr(|| waitpid(Some(self.pid), all));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.send(Signal::KILL);
        if let (Some(token), Ok(watcher)) = (self.watched, watcher()) {
            // A call that is still running owns what it needs, and nothing waits for it.
            let _ = watcher.remove(token);
        }
        // The process is reaped last: until then no other process can get its number.
        self.reap();
    }
}

/// Returns the thread that waits for the ends of all sandboxes. The first sandbox starts it, and it lives as long as
/// the monitor.
fn watcher() -> io::Result<&'static EventLoop> {
    static WATCHER: OnceLock<EventLoop> = OnceLock::new();
    if let Some(watcher) = WATCHER.get() {
        return Ok(watcher);
    }
    let new = EventLoop::new(ThreadKind::Device, "vmbell-watcher")?;
    // If two threads each started a watcher, the second is dropped here.
    Ok(WATCHER.get_or_init(|| new))
}

/// Asks for a child's state without waiting and without reaping it.
const UNREAPED: WaitIdOptions = WaitIdOptions::NOHANG.union(WaitIdOptions::NOWAIT);

/// Returns how a child has ended, without reaping it; `None` if it is still running.
fn ended_with(pidfd: &OwnedFd) -> Option<ExitStatus> {
    let options = WaitIdOptions::EXITED | UNREAPED;
    let raw = match retry_on_intr(|| waitid(WaitId::PidFd(pidfd.as_fd()), options)) {
        Ok(status) => {
            let status = status?;
            let code = status.exit_status().map(|code| (code & 0xff) << 8);
            code.or(status.terminating_signal())
        }
        Err(_) => None,
    };
    Some(ExitStatus::from_raw(raw.unwrap_or(libc::SIGKILL)))
}
