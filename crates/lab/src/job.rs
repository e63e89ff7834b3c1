//! The two documents that host and L1 exchange: the job, and the report about it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The path of the job in L1's file tree.
pub const JOB_FILE: &str = "/lab/job.json";
/// The kernel of the next Linux inside.
pub const NESTED_KERNEL_FILE: &str = "/lab/nested/kernel";
/// The initramfs of the next Linux inside.
pub const NESTED_INITRAMFS_FILE: &str = "/lab/nested/initramfs.cpio";
/// What the run gives the next Linux inside: a header and an archive.
pub const NESTED_RUN_FILE: &str = "/lab/nested/run";
/// The folder whose files are sent back to the host.
pub const OUT_FOLDER: &str = "/out";

/// Names of the channels: L1's are virtio-serial ports, those of a Linux inside it are virtio-vsock connections.
pub mod port {
    /// L1 sends messages, the host answers with single bytes; when the host closes it, L1 ends.
    pub const CONTROL: &str = "lab.control";
    /// The program's standard input.
    pub const STDIN: &str = "lab.stdin";
    /// The program's standard output.
    pub const STDOUT: &str = "lab.stdout";
    /// The program's standard error.
    pub const STDERR: &str = "lab.stderr";
    /// A tar archive of the folder for results.
    pub const FILES: &str = "lab.files";
    /// All of them.
    pub const ALL: [&str; 5] = [CONTROL, STDIN, STDOUT, STDERR, FILES];
    /// The port of the first of them as a connection; the others follow.
    const FIRST: u32 = 1024;

    /// The vsock port of the channel with this name.
    pub fn number(name: &str) -> Option<u32> {
        let ports = ALL.into_iter().zip(FIRST..);
        let mut ports = ports.filter(|(other, _)| *other == name);
        ports.next().map(|(_, number)| number)
    }
}

/// What the host sends over the control port, each one byte.
pub mod answer {
    /// Everything was read: end L1.
    pub const LEAVE: u8 = 1;
    /// Kill the program, and report: it has not ended after it was asked to.
    pub const STOP: u8 = 2;
    /// Say that you still run.
    pub const ASK: u8 = 3;
    /// The time limit is over: ask the program to end.
    pub const END: u8 = 4;
    /// The reader of the program's standard output is gone.
    pub const UNREAD_STDOUT: u8 = 5;
    /// The reader of its standard error is gone.
    pub const UNREAD_STDERR: u8 = 6;
}

/// A program to run in L1, or in a Linux inside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitJob {
    /// The program by its path in L1.
    pub program: PathBuf,
    /// The program's `argv`, from `argv[0]` on.
    pub arguments: Vec<String>,
    /// The program's whole environment.
    pub environment: Vec<(String, String)>,
    /// The program's working directory, made if it does not exist.
    pub directory: PathBuf,
    /// Whether standard input is connected.
    pub stdin: bool,
    /// Whether the folder for results is sent back.
    pub files: bool,
    /// Whether the program is in a separate cgroup, whose memory the kernel counts.
    #[serde(default)]
    pub cgroup: bool,
    /// Whether the program starts at a moment that is the same in each run.
    pub deterministic: bool,
    /// How long a deterministic program waits for its start after a whole second, in nanoseconds.
    #[serde(default)]
    pub phase: u64,
    /// The devices of L1, to be prepared before the program starts.
    pub devices: Vec<JobDevice>,
    /// A module without which the program does not start.
    #[serde(default)]
    pub required: Option<String>,
    /// The number of this Linux: 1 for L1, 2 for the Linux inside it.
    #[serde(default = "l1", skip_serializing_if = "is_l1")]
    pub depth: u32,
    /// Whether one guest is run, and no program: the machine was just saved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub check: bool,
    /// Whether exits of guests are counted while the program runs in one of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exits: bool,
    /// The I/O port by which that program marks parts of these exits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<u16>,
}

const fn l1() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
const fn is_l1(depth: &u32) -> bool {
    *depth == l1()
}

/// The next Linux inside, which `vmbell run` or QEMU starts before the job of this one is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nested {
    /// The number of the Linux that starts it.
    pub depth: u32,
    /// Whether time is counted in instructions.
    pub deterministic: bool,
    /// Its memory in bytes.
    pub memory: u64,
    /// Its vCPUs.
    pub vcpus: u32,
    /// Its kernel's command line.
    pub parameters: String,
    /// QEMU, if that starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu: Option<NestedQemu>,
    /// How many of Linux run inside each other from it on, itself included.
    pub levels: u32,
}

/// A QEMU among the files of the Linux that starts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedQemu {
    /// The words of a command line up to QEMU's own arguments.
    pub words: Vec<String>,
    /// The environment variables that it needs.
    pub environment: Vec<(String, String)>,
}

/// A device in L1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobDevice {
    /// Its name, for errors.
    pub name: String,
    /// The name of its bus, as sysfs names it.
    pub bus: String,
    /// Its address, as sysfs names it.
    pub address: String,
    /// The driver that it gets; `None` if it is to have none.
    pub driver: Option<String>,
    /// The address of L1's own network interface that belongs to it, if there is one: it is set up.
    pub interface: Option<String>,
}

/// How the program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramEnding {
    /// It exited with this status (8 bits).
    Exited(u8),
    /// A signal killed it.
    Signalled {
        /// The signal's number.
        signal: i32,
        /// Whether it would have left a core file.
        core: bool,
    },
    /// The host's time limit was over, so it was asked to end, or killed.
    Stopped,
    /// The host's time limit was over, and a Linux inside L1 did not answer: which, and the end of its console.
    Unanswered(String),
    /// A Linux inside L1 had its interrupts off and waited for what never came, so its VMM was ended: which Linux, and the end of
    /// its console.
    Spun(String),
    /// It never ran, or the kernel has reported a kernel bug.
    Failed(String),
}

/// What L1 sends over the control port, each one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InitMessage {
    /// The next Linux inside starts now, and the program in the innermost.
    Nesting,
    /// The program starts now.
    Started,
    /// This Linux still runs, which the host has asked.
    Alive,
    /// The program has ended.
    Report(RunReport),
}

/// The report that L1 sends at the end. The host acknowledges it after it has read the number of bytes that it states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReport {
    /// How the program ended.
    pub ending: ProgramEnding,
    /// Bytes sent to the host: standard output, standard error, files.
    pub sent: [u64; 3],
    /// Remarks of L1's init: modules that could not be loaded and the like.
    pub notes: Vec<String>,
    /// Exits of L1's guests while the program ran in one of them: the CPU's exit codes, each with its number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<(u32, u64)>,
    /// Those between each two marks of the program, as KVM names their reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub between_marks: Vec<NamedExits>,
}

impl From<ProgramEnding> for RunReport {
    /// The report of what has sent nothing.
    fn from(ending: ProgramEnding) -> Self {
        Self {
            ending,
            sent: [0; 3],
            notes: Vec::new(),
            exits: Vec::new(),
            between_marks: Vec::new(),
        }
    }
}

/// Numbers of exits by KVM's names of their reasons.
pub type NamedExits = BTreeMap<String, u64>;

impl ProgramEnding {
    /// The exit status as a shell would show it.
    pub fn status(&self) -> u8 {
        match self {
            Self::Exited(status) => *status,
            Self::Signalled { signal, .. } => {
                128_u8.saturating_add(u8::try_from(*signal).unwrap_or(u8::MAX))
            }
            Self::Stopped | Self::Unanswered(_) => 124,
            Self::Failed(_) | Self::Spun(_) => 125,
        }
    }

    /// The code that L1 writes to the debug-exit port. QEMU exits with twice the code plus one, cut to 8 bits, so
    /// the code has 7 bits; a larger status must not look like success.
    pub fn exit_code(&self) -> u8 {
        self.status().min(127)
    }
}

/// The code that was written to `isa-debug-exit`, from QEMU's exit status; `None` if no code was written. A
/// status of 1 means the code 0 or a failure of QEMU itself: only a report distinguishes them.
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
            let code = ProgramEnding::Exited(status).exit_code();
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
    fn every_channel_has_its_own_port() {
        let mut numbers: Vec<u32> = port::ALL.into_iter().filter_map(port::number).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), port::ALL.len());
        assert_eq!(port::number("x"), None);
    }

    #[test]
    fn a_signal_shows_as_in_a_shell() {
        assert_eq!(
            ProgramEnding::Signalled {
                signal: 11,
                core: true
            }
            .status(),
            139
        );
    }
}
