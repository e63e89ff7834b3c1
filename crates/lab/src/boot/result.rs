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
    /// When the program started, from the start of the VMM; `None` if it did not.
    pub started: Option<Duration>,
    /// Bytes that came: standard output, standard error, files.
    pub received: [u64; 3],
    /// Whether it was asked if it runs, and did not answer.
    pub silent: bool,
    /// Why a sink failed, if one did: what followed is lost.
    pub unwritten: Option<io::Error>,
    /// The report, if it came and all bytes that it counts were read.
    pub report: Option<RunReport>,
    /// How the VMM ended; `None` when it had to be killed.
    pub status: Option<ExitStatus>,
    /// The kernel's console.
    pub console: ConsoleTail,
    /// Why QEMU does not restore a saved state.
    pub refused: Option<String>,
    /// What the VMM printed to its standard error.
    pub vmm_errors: String,
    /// CPU time of the VMM.
    pub cpu: Duration,
    /// Time from the start of the VMM to its end.
    pub wall: Duration,
}

impl LabBootResult {
    /// What is known after this course without the VMM.
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

    /// What QEMU printed, otherwise the console's end.
    pub(crate) fn said(&self) -> String {
        if let Some(refused) = &self.refused {
            refused.clone()
        } else if self.vmm_errors.is_empty() || self.console.panicked() || self.status.is_none() {
            // What a VMM prints that goes on are warnings.
            format!("its console ends with:\n{}", self.console.tail())
        } else {
            self.vmm_errors.clone()
        }
    }
}
