//! The result of one boot of a Linux.

use std::io;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::ConsoleTail;
use super::supervise::Course;
use crate::job::RunReport;

/// The result of one boot.
#[derive(Debug)]
pub struct LabBootResult {
    /// Time from the start of the VMM to the start of the program; `None` if the program did not start.
    pub started: Option<Duration>,
    /// Bytes received: standard output, standard error, files.
    pub received: [u64; 3],
    /// Whether the Linux did not answer when it was asked whether it still runs.
    pub silent: bool,
    /// The error of the first sink that failed, if one did: the rest of that stream is lost.
    pub unwritten: Option<io::Error>,
    /// The report, if it arrived and all bytes that it counts were read.
    pub report: Option<RunReport>,
    /// How the VMM ended; `None` if it had to be killed or was not waited for.
    pub status: Option<ExitStatus>,
    /// The kernel's console.
    pub console: ConsoleTail,
    /// The error of a QEMU that could not restore a saved state.
    pub refused: Option<String>,
    /// What the VMM printed to its standard error.
    pub vmm_errors: String,
    /// CPU time of the VMM.
    pub cpu: Duration,
    /// Time from the start of the VMM to its end.
    pub wall: Duration,
}

impl LabBootResult {
    /// Makes the result from what was received, before the VMM's own results are added.
    pub(super) fn after(course: Course, begun: Instant) -> Self {
        Self {
            started: course.started,
            received: course.received,
            silent: course.silent,
            report: course.complete().then_some(course.report).flatten(),
            unwritten: course.unwritten,
            status: None,
            console: ConsoleTail::default(),
            refused: None,
            vmm_errors: String::new(),
            cpu: Duration::ZERO,
            wall: begun.elapsed(),
        }
    }

    /// Returns what the VMM printed, or otherwise the end of the console.
    pub(crate) fn said(&self) -> String {
        if let Some(refused) = &self.refused {
            refused.clone()
        } else if self.vmm_errors.is_empty() || self.console.panicked() || self.status.is_none() {
            // If the VMM kept running, its messages are only warnings.
            format!("its console ends with:\n{}", self.console.tail())
        } else {
            self.vmm_errors.clone()
        }
    }
}
