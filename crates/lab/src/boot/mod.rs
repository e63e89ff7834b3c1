//! One boot of L1: QEMU as a child process, from its start to its end, with its channels.
//!
//! Standard streams, files and the report travel over virtio-serial ports, each a socket pair. Those of a Linux inside L1 travel
//! over virtio-vsock, and L1 connects them with such pairs.
//! The kernel's console is kept apart and shown only when something goes wrong. One thread reads
//! each channel; the calling thread waits for what they report, for the end of QEMU, a panic of the kernel or a
//! time limit.

mod arguments;
mod channel;
mod console;
mod machine;
mod monitor;
mod process;
mod supervise;
mod vsock;

use std::io;
use std::time::Duration;

pub use arguments::{Mode, Settings, Vmm};
pub(crate) use arguments::{WINDOW, machine_arguments, parameters as kernel_parameters};
pub(crate) use channel::Stream;
pub use console::Console;
pub use machine::{Boot, Booted, SavedFiles, Sinks};
pub(crate) use machine::{Machine, channels};
pub use process::exec_applet;
pub use supervise::Limits;
pub(crate) use supervise::{ANSWERING, Event, LEAVING, LONGEST, Patience};
pub(crate) use vsock::{Listeners, accept};

/// An error of one boot.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// QEMU cannot be started.
    #[error("cannot start {program}")]
    Start {
        /// The first word of the command line.
        program: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A channel or a thread failed.
    #[error("cannot {action}")]
    Channel {
        /// The operation, a verb with its object.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// QEMU's monitor did not do what it was told.
    #[error("QEMU's monitor does not {action}: {said}")]
    Monitor {
        /// What it was told.
        action: &'static str,
        /// Its answer, or why there is none.
        said: String,
    },
    /// L1 did not come as far as the program.
    #[error("L1 did not start the program within {} s (--boot-timeout), in which QEMU had {} s of CPU; its console ends \
             with:\n{console}", seconds(*limit), seconds(*cpu))]
    BootLimit {
        /// The limit.
        limit: Duration,
        /// CPU time that QEMU had: next to nothing on a host that is too busy.
        cpu: Duration,
        /// The last lines of the console.
        console: String,
    },
    /// The program did not end by itself; it was asked to, or killed in L1, and its output has come back.
    #[error("the program started at {} s and did not end: its limit is {} s (--timeout), without the time \
             in which QEMU waited for a CPU", seconds(*started), seconds(*limit))]
    ProgramLimit {
        /// When the program started, from the start of QEMU.
        started: Duration,
        /// The limit.
        limit: Duration,
    },
    /// Neither the program ended nor did L1 answer.
    #[error("the program started at {} s and did not end: its limit is {} s (--timeout), and L1 does not \
             answer; its console ends with:\n{console}", seconds(*started), seconds(*limit))]
    Hang {
        /// When the program started, from the start of QEMU.
        started: Duration,
        /// The limit.
        limit: Duration,
        /// The last lines of the console.
        console: String,
    },
    /// L1 has stopped while the program ran: it did not even answer.
    #[error("L1 stopped answering{}: it was asked whether it runs and said nothing for {} s; its console ends with:\n{console}",
            in_each(*boots), seconds(*limit))]
    Silent {
        /// How often L1 was booted.
        boots: u32,
        /// How long an answer may take.
        limit: Duration,
        /// The last lines of the console.
        console: String,
    },
    /// L1's kernel panicked.
    #[error("L1's kernel panicked{}; its console ends with:\n{console}", in_each(*boots))]
    Panic {
        /// How often L1 was booted.
        boots: u32,
        /// The last lines of the console.
        console: String,
    },
    /// A signal killed QEMU, its own abort among them.
    #[error("QEMU crashed{} ({status}): {said}", in_each(*boots))]
    Crash {
        /// How often L1 was booted.
        boots: u32,
        /// QEMU's signal.
        status: String,
        /// QEMU's error output, or else the last lines of the console.
        said: String,
    },
    /// QEMU ended without a report from L1.
    #[error("QEMU ended ({status}) without a report from L1: {said}")]
    NoReport {
        /// QEMU's exit status, decoded.
        status: String,
        /// QEMU's error output, or else the last lines of the console.
        said: String,
    },
    /// A Linux has no such program, or it is not executable; or a Linux inside L1 has failed.
    #[error("{reason}")]
    Program {
        /// The error of the init of the Linux, which says which one it is.
        reason: String,
    },
    /// A time limit expired, and a Linux inside L1 did not answer.
    #[error("{reason}")]
    Unanswered {
        /// Which, and the last lines of its console.
        reason: String,
    },
    /// A Linux inside L1 had its interrupts off and waited for what never came.
    #[error("{reason}")]
    Spun {
        /// Which, and the last lines of its console.
        reason: String,
    },
    /// The files from L1 cannot be unpacked.
    #[error("cannot unpack the files from L1 into {}", folder.display())]
    Files {
        /// The folder for the files.
        folder: std::path::PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl BootError {
    /// Whether a time limit was reached.
    pub fn is_time_limit(&self) -> bool {
        matches!(
            self,
            Self::BootLimit { .. }
                | Self::ProgramLimit { .. }
                | Self::Hang { .. }
                | Self::Unanswered { .. }
        )
    }

    /// Whether L1 crashed or hung in the only boot. A boot that crashes before the program begins is repeated.
    pub fn is_only_crash(&self) -> bool {
        matches!(
            self,
            Self::Panic { boots: 1, .. }
                | Self::Silent { boots: 1, .. }
                | Self::Crash { boots: 1, .. }
        )
    }

    /// For `map_err` on channel operations.
    pub(crate) fn channel(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Channel { action, source }
    }
}

/// How often the same happened, unless it was once.
fn in_each(boots: u32) -> String {
    match boots {
        1 => String::new(),
        boots => format!(" in each of {boots} boots"),
    }
}

/// Seconds with at most one digit after the point.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}
