//! `floor-signal`: the floor of an interrupt to a guest that runs in another process.
//!
//! One operation lasts from `tgkill(2)` until the first instruction of the signal handler in a thread that spins on
//! another CPU. The way back is not included.
#![allow(unsafe_code, reason = "a signal handler, and sending to a thread")]

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{OnceLock, mpsc};
use std::time::Instant;

use super::{Cpus, in_pieces};
use crate::affinity::{self, Pinned};
use crate::subject::nanoseconds;
use crate::{
    CommandLimit, RunSample, Subject, SubjectError, SubjectOptions, SubjectSetting, TickClock,
};

pub(super) const NAME: &str = "floor-signal";

/// The time stamp of the handler's last entry; 0 while the sender waits for an entry.
static ENTERED: AtomicU64 = AtomicU64::new(0);

struct SignalFloor {
    cpus: Cpus,
    clock: TickClock,
    limit: CommandLimit,
}

pub(super) fn make(options: &SubjectOptions) -> Result<Box<dyn Subject>, SubjectError> {
    install().map_err(|error| SubjectError::failed(NAME, error))?;
    Ok(Box::new(SignalFloor {
        cpus: super::two_cpus(options)?,
        clock: options.clock,
        limit: options.limit.clone(),
    }))
}

/// The second real-time signal that programs may use; the first kicks vCPUs.
fn number() -> libc::c_int {
    libc::SIGRTMIN() + 1
}

extern "C" fn handler(_signal: libc::c_int) {
    ENTERED.store(TickClock::now(), Release);
}

/// Installs the handler, once in the process.
fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<Option<i32>> = OnceLock::new();
    let failure = *INSTALLED.get_or_init(|| {
        // SAFETY: sigaction has only integers and an optional pointer, for which all zeros is a value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: `action` is a whole sigaction on this frame, which the kernel copies; its handler is
        // a function that lives as long as the program and stores to an atomic, no more.
        match unsafe { libc::sigaction(number(), &raw const action, std::ptr::null_mut()) } {
            0 => None,
            _ => io::Error::last_os_error().raw_os_error(),
        }
    });
    failure.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
}

/// Sends the signal to a thread of this process.
fn send(thread: i32) -> io::Result<()> {
    let (process, signal) = (std::process::id(), number());
    // SAFETY: no pointers. The thread is alive: it waits for the end of the run.
    match unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Subject for SignalFloor {
    fn name(&self) -> &str {
        NAME
    }

    fn setting(&self) -> SubjectSetting {
        super::setting(self.cpus)
    }

    fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let cpus = self.cpus;
        let _pinned =
            Pinned::to(&[cpus.here]).map_err(|error| SubjectError::failed(NAME, error))?;
        let left = AtomicU64::new(ops);
        let (number, is_there) = mpsc::channel();
        let started = Instant::now();
        let ticks = std::thread::scope(|scope| {
            scope.spawn(|| {
                affinity::prefer(cpus.there);
                // SAFETY: no pointers, and no failure.
                let _ = number.send(unsafe { libc::gettid() });
                while left.load(Relaxed) != 0 {
                    std::hint::spin_loop();
                }
            });
            let all = signal_all(&is_there, ops, &self.limit);
            left.store(0, Relaxed);
            all
        });
        Ok(RunSample {
            ops,
            elapsed_ns: nanoseconds(started.elapsed()),
            latencies_ns: self.clock.latencies(ticks?),
            ..RunSample::default()
        })
    }
}

fn signal_all(
    is_there: &mpsc::Receiver<i32>,
    ops: u64,
    limit: &CommandLimit,
) -> Result<Vec<u64>, SubjectError> {
    let thread = is_there
        .recv()
        .map_err(|error| SubjectError::failed(NAME, error))?;
    let mut all = Vec::new();
    in_pieces(NAME, limit, (ops, 256), |signals| {
        (0..signals).try_for_each(|_| {
            ENTERED.store(0, Release);
            let sent = TickClock::now();
            send(thread)?;
            let entered = loop {
                match ENTERED.load(Acquire) {
                    0 => std::hint::spin_loop(),
                    entered => break entered,
                }
            };
            all.push(entered.saturating_sub(sent));
            Ok::<(), io::Error>(())
        })
    })?;
    Ok(all)
}
