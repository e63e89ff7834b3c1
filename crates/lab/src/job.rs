//! The two documents that the host and L1 exchange: the job, and the report about it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The path of the job in L1's file tree.
pub const JOB_FILE: &str = "/lab/job.json";
/// The kernel of the next Linux inside.
pub const NESTED_KERNEL_FILE: &str = "/lab/nested/kernel";
/// The initramfs of the next Linux inside.
pub const NESTED_INITRAMFS_FILE: &str = "/lab/nested/initramfs.cpio";
/// What a run gives the next Linux inside: a header and an archive.
pub const NESTED_RUN_FILE: &str = "/lab/nested/run";
/// The folder whose files are sent back to the host.
pub const OUT_FOLDER: &str = "/out";

/// Names of the channels. In L1 they are virtio-serial ports, in a Linux inside it virtio-vsock connections.
pub mod port {
    /// L1 sends messages, and the host answers with single bytes. When the host closes this channel, L1 shuts down.
    pub const CONTROL: &str = "lab.control";
    /// The program's standard input.
    pub const STDIN: &str = "lab.stdin";
    /// The program's standard output.
    pub const STDOUT: &str = "lab.stdout";
    /// The program's standard error.
    pub const STDERR: &str = "lab.stderr";
    /// A tar archive of the folder for results.
    pub const FILES: &str = "lab.files";
    /// All channels.
    pub const ALL: [&str; 5] = [CONTROL, STDIN, STDOUT, STDERR, FILES];
    /// The vsock port of the first channel; the others follow in order.
    const FIRST: u32 = 1024;

    /// Returns the vsock port of the channel with this name.
    pub fn number(name: &str) -> Option<u32> {
        let ports = ALL.into_iter().zip(FIRST..);
        let mut ports = ports.filter(|(other, _)| *other == name);
        ports.next().map(|(_, number)| number)
    }
}

/// The bytes that the host sends over the control channel.
pub mod answer {
    /// Everything was read: shut down L1.
    pub const LEAVE: u8 = 1;
    /// Kill the program and send the report: the program has not ended after it was asked to.
    pub const STOP: u8 = 2;
    /// Reply that you are still running.
    pub const ASK: u8 = 3;
    /// The time limit has passed: ask the program to end.
    pub const END: u8 = 4;
    /// The reader of the program's standard output has gone.
    pub const UNREAD_STDOUT: u8 = 5;
    /// The reader of the program's standard error has gone.
    pub const UNREAD_STDERR: u8 = 6;
}

/// A program to run in L1 or in a Linux inside it.
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
    /// Whether the folder for results is sent to the host.
    pub files: bool,
    /// Whether the program runs in a separate cgroup, whose memory the kernel counts.
    #[serde(default)]
    pub cgroup: bool,
    /// Whether the program starts at a moment that is the same in each run.
    pub deterministic: bool,
    /// For a deterministic program: how long after a whole second it starts, in nanoseconds.
    #[serde(default)]
    pub phase: u64,
    /// L1's devices, which are prepared before the program starts.
    pub devices: Vec<JobDevice>,
    /// Modules that must be loaded, or the program does not start.
    #[serde(default)]
    pub required: Vec<String>,
    /// The parameters of KVM's modules that the user sets, such as `kvm_intel.enable_apicv=1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kvm_parameters: Vec<String>,
    /// The depth of this Linux: 1 for L1, 2 for the Linux inside it.
    #[serde(default = "l1", skip_serializing_if = "is_l1")]
    pub depth: u32,
    /// Whether to run one guest and no program, to check a machine that was just saved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub check: bool,
    /// Whether to count the exits of guests while the program runs in one of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exits: bool,
    /// The I/O port on which that program marks parts of these exits.
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

/// The next Linux inside. `vmbell run` or QEMU starts it before this Linux gets its job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nested {
    /// The depth of the Linux that starts the guest.
    pub depth: u32,
    /// Whether time is counted in instructions.
    pub deterministic: bool,
    /// The guest's memory in bytes.
    pub memory: u64,
    /// The guest's vCPUs.
    pub vcpus: u32,
    /// The command line of the guest's kernel.
    pub parameters: String,
    /// QEMU, if QEMU starts the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qemu: Option<NestedQemu>,
    /// How many levels of Linux run inside each other, from this one on and including it.
    pub levels: u32,
}

/// A QEMU among the files of the Linux that starts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedQemu {
    /// The words of a command line up to QEMU's own arguments.
    pub words: Vec<String>,
    /// The environment variables that QEMU needs.
    pub environment: Vec<(String, String)>,
}

/// A device in L1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobDevice {
    /// The device's name, for errors.
    pub name: String,
    /// The name of the device's bus, as sysfs names it.
    pub bus: String,
    /// The device's address, as sysfs names it.
    pub address: String,
    /// The driver to bind; `None` for no driver.
    pub driver: Option<String>,
    /// The bus address of L1's own network interface on the device's network, if there is one. L1's init brings it up.
    pub interface: Option<String>,
}

/// How the program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramEnding {
    /// The program exited with this status (8 bits).
    Exited(u8),
    /// A signal killed the program.
    Signalled {
        /// The signal's number.
        signal: i32,
        /// Whether the program would have left a core file.
        core: bool,
    },
    /// The host's time limit expired, so the program was asked to end, or killed.
    Stopped,
    /// The host's time limit expired, and a Linux inside L1 did not answer: which Linux, and the end of its console.
    Unanswered(String),
    /// A Linux inside L1 waited forever with its interrupts off, so its VMM was killed: which Linux, and the end of its
    /// console.
    Spun(String),
    /// The program never ran, or the kernel reported a kernel bug.
    Failed(String),
}

/// The messages that L1 sends over the control channel, one per line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InitMessage {
    /// The next Linux inside starts now. The program will run in the innermost.
    Nesting,
    /// The program starts now.
    Started,
    /// The answer to the host's question: this Linux is still running.
    Alive,
    /// The program has ended.
    Report(RunReport),
}

/// The report that L1 sends at the end. The host acknowledges it after reading as many bytes as the report states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReport {
    /// How the program ended.
    pub ending: ProgramEnding,
    /// Bytes sent to the host: standard output, standard error, files.
    pub sent: [u64; 3],
    /// Remarks of L1's init: modules that could not be loaded and the like.
    pub notes: Vec<String>,
    /// Exits of L1's guests while the program ran in one of them: the CPU's exit codes with their counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<(u32, u64)>,
    /// Exits between each two marks of the program, under KVM's names for their reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub between_marks: Vec<NamedExits>,
}

impl From<ProgramEnding> for RunReport {
    /// Makes the report of a program that has sent nothing.
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

/// How often each exit reason occurred, under KVM's name for the reason.
pub type NamedExits = BTreeMap<String, u64>;

impl ProgramEnding {
    /// Returns the exit status as a shell shows it.
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

    /// Returns the code that L1 writes to the debug-exit port. QEMU exits with twice the code plus one, cut to 8 bits,
    /// so the code has only 7 bits. A larger status must not look like success.
    pub fn exit_code(&self) -> u8 {
        self.status().min(127)
    }
}

/// Returns the code that was written to `isa-debug-exit`, from QEMU's exit status; `None` if no code was written. A
/// status of 1 means either code 0 or a failure of QEMU itself: only a report tells which.
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
