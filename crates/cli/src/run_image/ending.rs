//! What ends a run from outside of the guest, and the exit status of every end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::console::{Console, Input};
use super::{RunArgs, status};
use crate::exit::Exit;
use crate::interrupt;
use vmbell_vmm::Stop;

/// Signals, the console's command to quit, and the time limit, while the guest runs.
pub(super) struct Ending {
    interrupted: &'static AtomicBool,
    console: Option<Console>,
    quit: Option<Arc<AtomicBool>>,
    timeout: Duration,
    deadline: Option<Instant>,
}

impl Ending {
    /// Begins to watch, and gives the guest what the user types if there is an `input`.
    pub(super) fn begin(args: &RunArgs, input: Option<Input>) -> Result<Self> {
        let interrupted = interrupt::catch().context("cannot catch signals")?;
        let console = input.map(Console::attach).transpose()?;
        let timeout = args.timeout;
        Ok(Self {
            interrupted,
            quit: console.as_ref().map(Console::has_quit),
            console,
            timeout,
            deadline: (timeout > Duration::ZERO).then(|| Instant::now() + timeout),
        })
    }

    /// Whether the run has to end, for any thread.
    pub(super) fn is_due(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let (interrupted, quit, deadline) = (self.interrupted, self.quit.clone(), self.deadline);
        move || {
            is_set(interrupted)
                || quit.as_deref().is_some_and(is_set)
                || deadline.is_some_and(|deadline| Instant::now() >= deadline)
        }
    }

    /// Gives the terminal back, and says how the guest ended.
    pub(super) fn status(self, stop: Stop) -> Result<u8> {
        drop(self.console);
        let has_quit = self.quit.as_deref().is_some_and(is_set);
        match stop {
            Stop::Done(code) => Ok(status(code)),
            Stop::Shutdown | Stop::Reset => Ok(Exit::Good.status()),
            Stop::Kicked if is_set(self.interrupted) || has_quit => Ok(Exit::Interrupted.status()),
            Stop::Kicked => {
                eprintln!("error: the guest did not end within {:?}", self.timeout);
                Ok(Exit::TimedOut.status())
            }
            Stop::Halted => Err(anyhow!("the guest halted and nothing can wake it")),
        }
    }
}

fn is_set(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Acquire)
}
