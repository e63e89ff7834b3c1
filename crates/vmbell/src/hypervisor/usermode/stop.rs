//! A stop of the whole sandbox, after which no system call of before is under way.
//!
//! A thread stops on its way out of a system call only, and the kernel says that the process is
//! stopped when the last one is (Linux `kernel/signal.c`, `task_participate_group_stop`). That is
//! asked for and not consumed: what is read is the state of now, not a report of an earlier stop.
#![allow(unsafe_code)]

use std::io;
use std::time::{Duration, Instant};

use super::process::Process;

/// How long a stop may take altogether. It takes microseconds, or a time slice of each thread.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long until the signal is sent again: somebody else's SIGCONT takes it back.
const AGAIN: Duration = Duration::from_millis(10);

impl Process {
    /// Stops every thread of the sandbox and lets it go on: when it returns, each system call that
    /// was under way in the sandbox has ended. Needs no cooperation of what runs inside.
    ///
    /// A sandbox that is stopped already is left so. One that somebody else stops at the same time
    /// goes on with ours: the kernel does not tell the two stops apart. [`io::ErrorKind::TimedOut`]
    /// if the sandbox could not be seen to stand still, because somebody else let it go on each time.
    pub fn stop_and_go(&self) -> io::Result<()> {
        if self.stands_still()? {
            return Ok(());
        }
        let stopped = self.stop();
        self.send(libc::SIGCONT);
        stopped
    }

    fn stop(&self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.send(libc::SIGSTOP);
            let again = Instant::now() + AGAIN;
            let mut pause = Duration::from_micros(10);
            for tries in 0_u32.. {
                if self.stands_still()? {
                    return Ok(());
                }
                let now = Instant::now();
                if now > deadline {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "it does not stop; does somebody else send it SIGCONT?",
                    ));
                }
                if now > again {
                    break;
                }
                if tries < 16 {
                    std::thread::yield_now();
                } else {
                    std::thread::sleep(pause);
                    pause = (2 * pause).min(Duration::from_millis(1));
                }
            }
        }
    }

    /// Whether all threads are stopped, or have ended.
    fn stands_still(&self) -> io::Result<bool> {
        let pid = self.pid().cast_unsigned();
        let states = libc::WSTOPPED | libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
        loop {
            // SAFETY: all-zero bytes are a valid siginfo_t, which waitid fills in.
            let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
            // SAFETY: `info` outlives the call; the process is our child and not reaped.
            if unsafe { libc::waitid(libc::P_PID, pid, &raw mut info, states) } >= 0 {
                // Without a state to report the process number stays 0.
                // SAFETY: waitid succeeded, so the fields of SIGCHLD are set.
                return Ok(unsafe { info.si_pid() } != 0);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    fn send(&self, signal: libc::c_int) {
        // SAFETY: no pointers; the process is ours and not reaped. It may have ended already.
        unsafe { libc::kill(self.pid(), signal) };
    }
}
