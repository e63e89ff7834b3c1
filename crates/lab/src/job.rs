//! What the host tells L1 to do, and what L1 answers: the two documents that cross the border.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// This program as process 1. It is known by this name, because the kernel gives process 1 every
/// parameter that it does not know itself as an argument.
pub const INIT_FILE: &str = "/lab/vmbell-lab-init";
/// Where the job lies in L1's file tree.
pub const JOB_FILE: &str = "/lab/job.json";
/// Where modules lie, named so that their order is the order of loading.
pub const MODULE_FOLDER: &str = "/lab/modules";
/// Where the run's own modules lie, loaded after those.
pub const EXTRA_MODULE_FOLDER: &str = "/lab/extra-modules";
/// Where the program leaves files that are to come back.
pub const OUT_FOLDER: &str = "/out";

/// Names of the virtio-serial ports.
pub mod port {
    /// Outcome one way, acknowledgement the other; its end is the end of the lab.
    pub const CONTROL: &str = "lab.control";
    /// The program's standard input.
    pub const STDIN: &str = "lab.stdin";
    /// Its standard output.
    pub const STDOUT: &str = "lab.stdout";
    /// Its standard error.
    pub const STDERR: &str = "lab.stderr";
    /// A tar archive of the folder for results.
    pub const FILES: &str = "lab.files";
}

/// A program to run in L1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The program by its path in L1.
    pub program: PathBuf,
    /// What it sees as `argv[0]`, and its arguments.
    pub arguments: Vec<String>,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
    /// Its working directory, made if it is not there.
    pub directory: PathBuf,
    /// Whether standard input is connected.
    pub stdin: bool,
    /// Whether the folder for results is sent back.
    pub files: bool,
    /// Whether nothing that the host does may reach L1 while the program runs.
    pub deterministic: bool,
}

/// How the program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It exited with this status, all 8 bits of it.
    Exited(u8),
    /// A signal killed it.
    Signalled {
        /// The signal's number.
        signal: i32,
        /// Whether it would have left a core file.
        core: bool,
    },
    /// It never ran.
    Failed(String),
}

/// What L1 reports at the end. The counts tell the host what it must have read before it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// How the program ended.
    pub ending: Ending,
    /// Bytes sent to the host: standard output, standard error, files.
    pub sent: [u64; 3],
    /// Remarks of L1's init: modules that could not be loaded and the like.
    pub notes: Vec<String>,
}

impl Ending {
    /// The status a shell would show.
    pub fn status(&self) -> u8 {
        match self {
            Self::Exited(status) => *status,
            Self::Signalled { signal, .. } => {
                128_u8.saturating_add(u8::try_from(*signal).unwrap_or(u8::MAX))
            }
            Self::Failed(_) => 125,
        }
    }

    /// What L1 writes to the debug-exit port. QEMU ends with twice that plus one, of which 8 bits
    /// are left, so 7 bits fit; a larger status must not look like success.
    pub fn exit_code(&self) -> u8 {
        self.status().min(127)
    }
}

/// The inverse of what `isa-debug-exit` does to a code; `None` when no code was written. A status
/// of 1 is the code 0 as well as QEMU's own way to fail: only a report tells them apart.
pub fn decode_debug_exit(qemu_status: i32) -> Option<u8> {
    let status = u8::try_from(qemu_status).ok()?;
    (status & 1 == 1).then_some(status >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debug_exit_code_survives_qemu() {
        for status in 0..=255 {
            let code = Ending::Exited(status).exit_code();
            let qemu = i32::from(code.wrapping_shl(1) | 1);
            assert_eq!(decode_debug_exit(qemu), Some(status.min(127)));
            assert_eq!(status == 0, code == 0, "only success looks like success");
        }
    }

    #[test]
    fn an_even_status_is_no_code() {
        assert_eq!(decode_debug_exit(0), None);
        assert_eq!(decode_debug_exit(2), None);
        assert_eq!(decode_debug_exit(-1), None);
    }

    #[test]
    fn a_signal_shows_as_in_a_shell() {
        assert_eq!(
            Ending::Signalled {
                signal: 11,
                core: true
            }
            .status(),
            139
        );
    }
}
