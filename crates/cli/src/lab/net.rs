//! `vmbell lab net`: runs this program's own `net` in L1, with the lab's QEMU, and with L1's kernel as the guest's.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use tempfile::TempDir;

use super::arch::boards;
use super::columns::Command;
use super::device::plug_in;
use super::exported::Exported;
use super::machine::Machine;
use super::parts::Parts;
use crate::exports::ExportArgs;
use crate::net::{DRIVERS, takes_card};
use crate::values;
use vmbell_lab::arch::Arch;
use vmbell_lab::board::Board;
use vmbell_lab::cache::Cache;
use vmbell_lab::kernel::ModuleTree;
use vmbell_lab::{Kernel, Netperf, Provision};
use vmbell_report::Timing;

const EXAMPLES: &str = "\
Examples:
  vmbell lab net --deterministic                       instructions of a round trip by every way
  vmbell lab net --deterministic vmbell-ioeventfd qemu-ioeventfd -- --pattern all
                                                       two ways, and all patterns
  vmbell lab net --export-json net.json -- --transactions 500

Exit codes are those of `vmbell net`; 124 is the lab's own time limit, and 125 a failure of the lab itself.
";

/// Where L1 has the files of the guest.
const FOLDER: &str = "/guest";
/// What the ways need in L1.
const MODULES: [&str; 2] = ["tun", "vhost_net"];
/// The card that L1 assigns, its address, and L1's own interface at the other end of the wire, which gets its name
/// first.
const CARD: &str = "virtio-net";
const CARD_ADDRESS: &str = "0000:00:07.0";
const WIRE: &str = "eth0";
/// The least memory of L1, which has the files of QEMU twice for a moment.
const MEMORY: u64 = 1536 << 20;
/// QEMU 7.2's SVM switches vector state off at exits: docs/linux.md.
const APPEND: &str = "noxsave";
/// How long all boots together may take, by this host's clock.
const ALL_BOOTS: Duration = Duration::from_secs(30 * 60);
/// How long a boot or a run of netperf may take, by L1's clock, which runs fast if this host was busy when L1 measured its
/// counter.
const EMULATED: [(&str, &str); 1] = [("--time-limit", "5m")];
/// Where instructions are counted, few operations give the same figures as many, and in less time QEMU makes fewer
/// guests hang.
const DETERMINISTIC: [(&str, &str); 3] = [
    ("--time-limit", "2s"),
    ("--transactions", "500"),
    ("--bytes", "1M"),
];

/// Measure Linux's network driver in a guest, inside the lab
///
/// Runs this program's own `net` in L1, in one boot, with the lab's QEMU and vmbell itself. The guest's kernel is L1's;
/// busybox and netperf are downloaded (netperf from Debian's non-free). Times are the emulator's: what counts is
/// --deterministic, whose numbers are instructions.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct LabNetArguments {
    #[command(flatten)]
    parts: Parts,
    #[command(flatten)]
    machine: Machine,
    /// The ways: names of `vmbell net --list`; all without any
    #[arg(value_name = "WAY", index = 1)]
    names: Vec<String>,
    /// How often each guest is booted [default: 3]
    #[arg(short, long, value_name = "N", value_parser = values::runs)]
    runs: Option<u32>,
    #[command(flatten)]
    reports: ExportArgs,
    /// Further options of `vmbell net`
    #[arg(last = true, value_name = "OPTION", index = 2)]
    options: Vec<OsString>,
}

/// Measures in L1; the exit status is that of `net`.
pub(super) fn run(arch: Option<&str>, arguments: &LabNetArguments) -> anyhow::Result<ExitCode> {
    let (host, board) = boards(arch)?;
    if board.arch.name != "x86_64" {
        bail!(
            "vmbell boots Linux on x86_64 only, and this lab's machine is {}",
            board.arch.name
        );
    }
    let exports = Exported::open(&arguments.reports)?;
    let mut settings = arguments.machine.settings_within(&board, ALL_BOOTS)?;
    if arguments.assigns() {
        plug_in(&board, &mut settings.devices, &[CARD]).map_err(anyhow::Error::msg)?;
    }
    settings.memory = settings.memory.max(MEMORY);
    let lab = arguments.parts.open(host, board, &settings)?;
    let programs = programs(host, &board, &arguments.parts)?;
    let modules = modules(&lab.kernel)?;
    let files = [
        ("--kernel", "vmlinux", lab.kernel.image.as_path()),
        ("--modules", "modules", modules.path()),
        ("--busybox", "busybox", &programs.busybox),
        ("--netperf", "netperf", &programs.netperf.netperf),
        ("--netserver", "netserver", &programs.netperf.netserver),
    ];
    let in_l1 = |name| Path::new(FOLDER).join(name);
    let mut begin: Vec<OsString> = ["net", "--append", APPEND].map(Into::into).into();
    for (option, name, _) in files {
        begin.extend([option.into(), in_l1(name).into()]);
    }
    if arguments.assigns() {
        begin.extend(["--card", CARD_ADDRESS, "--wire", WIRE].map(Into::into));
    }
    if let Some(runs) = arguments.runs {
        begin.extend(["--runs".into(), runs.to_string().into()]);
    }
    let defaults: &[_] = match arguments.machine.timing() {
        Timing::Instructions => &DETERMINISTIC,
        Timing::Native | Timing::Emulated => &EMULATED,
    };
    let own = MODULES.iter().map(|name| (*name).to_owned());
    let command = Command {
        parts: &arguments.parts,
        machine: &arguments.machine,
        reports: &arguments.reports,
        exports,
        begin,
        defaults: defaults.into(),
        options: &arguments.options,
        names: &arguments.names,
        with: files
            .map(|(_, name, path)| (path.to_path_buf(), in_l1(name)))
            .into(),
        modules: own.chain(arguments.machine.module.clone()).collect(),
    };
    command.run(&lab, &settings)
}

impl LabNetArguments {
    /// Whether a way takes a card: there is one among all, too.
    fn assigns(&self) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| takes_card(name))
    }
}

/// Programs that are downloaded.
struct Programs {
    busybox: PathBuf,
    netperf: Netperf,
}

fn programs(host: Arch, board: &Board, parts: &Parts) -> anyhow::Result<Programs> {
    let cache = Cache::user()?;
    let mut provision = Provision::new(host, board, &cache, parts.progress());
    let busybox = provision.shell(false)?.context("there is no busybox")?;
    let netperf = provision.netperf()?;
    provision.finish()?;
    Ok(Programs { busybox, netperf })
}

/// A folder with the guest's drivers and what they depend on, of all modules of the kernel.
fn modules(kernel: &Kernel) -> anyhow::Result<TempDir> {
    let from = kernel
        .modules
        .as_ref()
        .context("the lab's kernel has no modules: name a folder with --modules")?;
    let folder =
        TempDir::with_prefix("vmbell-modules-").context("cannot make a temporary folder")?;
    let write = |name: &str, bytes: &[u8]| {
        fs::write(folder.path().join(name), bytes).with_context(|| format!("cannot write {name}"))
    };
    for module in ModuleTree::open(from, kernel.release())?.load_order(&DRIVERS)? {
        write(&format!("{}.ko", module.name), &module.bytes)?;
    }
    // It names the drivers that have no file.
    const BUILTIN: &str = "modules.builtin";
    write(BUILTIN, &fs::read(from.join(BUILTIN)).unwrap_or_default())?;
    Ok(folder)
}
