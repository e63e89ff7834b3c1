//! What a suite of `vmbell bench`, or `vmbell sweep`, needs in L1, as data.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::bail;

use super::inner::Inner;
use crate::suites::BenchSuite;
use vmbell_bench::scenario;
use vmbell_lab::board::{EmulatorKind, LabBoard};
use vmbell_report::Timing;

/// COLUMNS has the same length on every host, because the size of the environment shifts the program's stack.
const WIDTH: (&str, &str) = ("COLUMNS", "80");
/// The card that L1 assigns, its address, and L1's interface at the other end of its wire.
const CARD: &str = "virtio-net";
const CARD_ADDRESS: &str = "0000:00:07.0";
const WIRE: &str = "eth0";
/// QEMU 7.2's SVM switches vector state off at exits: docs/emulator-bugs.md.
const APPEND: &str = "noxsave";

/// The lab's own limit is the only one: L1's clock runs at another speed.
const NO_LIMIT: (&str, &str) = ("timeout", "0");

/// What a suite needs, beyond what every program has.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Options that are added unless the user gives them.
    pub(super) defaults: Vec<(&'static str, &'static str)>,
    /// Options that replace the user's.
    pub(super) replaced: Vec<(&'static str, OsString)>,
    /// Environment variables.
    pub(super) environment: Vec<(String, String)>,
    /// Devices of L1, if the board has them.
    pub(super) devices: Vec<&'static str>,
    /// The minimum memory of L1 in bytes.
    pub(super) memory: u64,
    /// Modules of L1's kernel.
    pub(super) modules: &'static [&'static str],
    /// The default time limit of the program, by this host's clock.
    pub(super) time_limit: Option<Duration>,
    /// Whether to copy the VMMs of this host: the lab's QEMU, and others on PATH.
    pub(super) vmms: bool,
    /// Whether to copy L1's own kernel, for the guest.
    pub(super) kernel: bool,
    /// Whether to copy the parts of a Linux guest, and netperf.
    pub(super) linux: bool,
}

impl Needs {
    /// What this command needs on this board.
    pub(super) fn of(inner: &Inner, board: &LabBoard, timing: Timing) -> anyhow::Result<Self> {
        let is_counted = timing == Timing::Instructions;
        let suite = match &inner.suite {
            Some(suite) => suite,
            None if inner.sweep.is_some() => return Self::of_sweep().checked(board),
            None => return Ok(Self::default()),
        };
        let needs = match suite {
            BenchSuite::Paths(args) => Self {
                defaults: vec![("backend", "kvm"), NO_LIMIT],
                devices: scenario::devices(&args.names),
                ..Self::default()
            },
            BenchSuite::Rings(_) | BenchSuite::Eoi(_) => Self {
                defaults: vec![NO_LIMIT],
                ..Self::default()
            },
            BenchSuite::Vmms(args) => Self {
                kernel: args.wants_lab_kernel(),
                replaced: match args.wants_lab_kernel() {
                    true => vec![("linux", LINUX[0].1.into())],
                    false => Vec::new(),
                },
                // A VMM that spins for ten seconds of an instruction clock has executed 10,000,000,000 instructions.
                defaults: match is_counted {
                    true => vec![("runs", "1"), ("ops", "20"), ("run-timeout", "10s")],
                    false => vec![("ops", "20"), ("run-timeout", "2m")],
                },
                time_limit: Some(Duration::from_secs(15 * 60)),
                vmms: true,
                ..Self::default()
            },
            BenchSuite::Net(args) => Self {
                replaced: vec![("append", format!("{APPEND} {}", args.append()).into())],
                ..Self::of_net(args.wants_card(), is_counted)
            },
        };
        needs.checked(board)
    }

    /// Refuses a board on which the lab's QEMU does not run in L1.
    fn checked(self, board: &LabBoard) -> anyhow::Result<Self> {
        if (self.vmms || self.linux) && board.arch.name != "x86_64" {
            bail!(
                "VMMs run in an L1 of x86_64 only, and the lab's machine is {}: leave --arch out",
                board.arch.name
            );
        }
        if self.linux && matches!(board.emulator, EmulatorKind::Bochs(_)) {
            bail!("bench net needs a network card in L1, and Bochs has no virtio: use --cpu amd");
        }
        Ok(Self {
            environment: match self.vmms {
                true => vec![(WIDTH.0.to_owned(), WIDTH.1.to_owned())],
                false => Vec::new(),
            },
            ..self
        })
    }

    fn of_sweep() -> Self {
        Self {
            // Snapshots are files of L1, which are in its memory.
            memory: 1 << 30,
            time_limit: Some(Duration::from_secs(60 * 60)),
            vmms: true,
            ..Self::default()
        }
    }

    fn of_net(wants_card: bool, is_counted: bool) -> Self {
        // Where instructions are counted, a short run gives the same figures as a long one, and makes fewer guests hang
        // in QEMU. L1's clock runs fast if this host was busy when L1 calibrated its counter.
        let mut defaults = match is_counted {
            true => vec![
                ("run-timeout", "2s"),
                ("transactions", "500"),
                ("bytes", "1M"),
            ],
            false => vec![("run-timeout", "5m")],
        };
        defaults.extend(LINUX);
        let mut devices = Vec::new();
        if wants_card {
            devices.push(CARD);
            defaults.extend([("card", CARD_ADDRESS), ("wire", WIRE)]);
        }
        Self {
            defaults,
            devices,
            // Half of the memory is for files: QEMU's, and the parts of a Linux guest.
            memory: 1536 << 20,
            modules: &["tun", "vhost_net"],
            time_limit: Some(Duration::from_secs(30 * 60)),
            vmms: true,
            linux: true,
            ..Self::default()
        }
    }
}

/// The options of `bench net` for the parts of a Linux guest, and their paths in L1.
pub(super) const LINUX: [(&str, &str); 5] = [
    ("kernel", "/guest/vmlinux"),
    ("modules", "/guest/modules"),
    ("busybox", "/guest/busybox"),
    ("netperf", "/guest/netperf"),
    ("netserver", "/guest/netserver"),
];
