//! `vmbell bench vmms` with real VMMs: QEMU's boards with emulation on this host, and all VMMs on the lab's KVM. Every
//! row of every VMM has a number, or the reason listed here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use vmbell_lab::arch::Arch;
use vmbell_lab::board::X86_64;
use vmbell_lab::cache::Cache;
use vmbell_lab::{LabProgress, Provision};
use vmbell_probe_image::names::ROWS;

use super::boots::{LIMITS, host_vmbell, output, text};
use super::exits;
use super::net::kernel_that_spins;
use kit::schema::violations;

/// Arguments for each VMM: few operations, because the lab is slow, and enough batches that L1's own work does not
/// disturb the quietest one.
const FEW: [&str; 4] = ["--ops", "4", "--batches", "5"];

/// The rows that every VMM's report must have: those of the devices that every VMM has.
fn rows_of_all() -> impl Iterator<Item = &'static str> {
    let is_of_few = |name: &&str| {
        ["virtio-console-", "virtio-net-"]
            .iter()
            .any(|device| name.starts_with(device))
    };
    ROWS.into_iter().filter(move |name| !is_of_few(name))
}

/// Rows without a number: the VMM, or "" for all; the beginning of the row's name; the reason. All other rows have one.
type Without = [(&'static str, &'static str, &'static str)];

const WITHOUT_BY_EMULATION: &Without = &[
    (
        "",
        "hypercall",
        "CPUID names no KVM, whose hypercall this is",
    ),
    ("", "xapic-self-ipi-pv-eoi", "no paravirtual EOI is offered"),
    ("", "x2apic-", "the CPU has no x2APIC"),
    (
        "qemu-microvm",
        "pm-timer-read",
        "the FADT names no PM timer",
    ),
];

const WITHOUT_ON_KVM: &Without = &[
    (
        "qemu-microvm",
        "pm-timer-read",
        "the FADT names no PM timer",
    ),
    (
        "qemu-microvm",
        "rtc-read",
        "register D does not read as a real-time clock's, so there is no clock",
    ),
];

/// Pairs of rows: the first one's quietest batch costs more than the second's, if both have a number. Rows of virtio
/// are left out: L1's only CPU may run the device's thread during the notification, which then costs as much as a round
/// trip.
const COSTS_MORE: [(&str, &str); 6] = [
    // One exit each: KVM handles one, and the VMM's process the other.
    ("serial-lsr", "cpuid"),
    ("pio-unassigned", "cpuid"),
    ("mmio-write-unassigned", "xapic-eoi"),
    ("mmio-read-unassigned", "xapic-eoi"),
    // The second saves the EOI.
    ("xapic-self-ipi", "xapic-self-ipi-pv-eoi"),
    ("x2apic-self-ipi", "x2apic-self-ipi-pv-eoi"),
];

/// QEMU's PC with a device whose notifications go to the VMM, because their address has no ioeventfd.
const NO_IOEVENTFD: &str = "no-ioeventfd=qemu-system-x86_64 -M pc,accel=kvm -m 64 -nodefaults -no-user-config \
     -no-reboot -display none -serial stdio -kernel {image} -append {cmdline} -device virtio-rng-pci,ioeventfd=off";

/// A folder for all temporary files of a command.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(TempDir::new().unwrap());
        fs::create_dir(folder.temporary()).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn temporary(&self) -> PathBuf {
        self.path("tmp")
    }

    /// Runs `vmbell` with these words, and returns its report. It must succeed, and leave neither a file nor a process.
    fn report(&self, words: &[&str], change: impl FnOnce(&mut Command)) -> Value {
        self.run(words, change)
            .unwrap_or_else(|shown| panic!("{shown}"))
    }

    /// Like [`report`](Self::report), but returns the output if the command fails.
    fn run(&self, words: &[&str], change: impl FnOnce(&mut Command)) -> Result<Value, String> {
        let report = self.path("report.json");
        let mut command = Command::new(host_vmbell());
        command
            .args(words)
            .env("TMPDIR", self.temporary())
            .stdin(Stdio::null());
        command.arg("--export-json").arg(&report);
        change(&mut command);
        let output = output(&mut command);
        self.nothing_is_left();
        if !output.status.success() {
            return Err(text(&output.stdout).to_owned());
        }
        let report = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
        let schema = include_str!("../../../../docs/report.schema.json");
        let schema = serde_json::from_str(schema).unwrap();
        assert_eq!(violations(&schema, &report), Vec::<String>::new());
        Ok(report)
    }

    fn nothing_is_left(&self) {
        let temporary = self.temporary();
        let files: Vec<_> = fs::read_dir(&temporary).unwrap().collect();
        assert!(files.is_empty(), "{files:?}");
        // Each boot has the image's path, which is in this folder, among its arguments.
        for process in fs::read_dir("/proc").unwrap() {
            let arguments = process.unwrap().path().join("cmdline");
            let arguments = fs::read(arguments).unwrap_or_default();
            let arguments = String::from_utf8_lossy(&arguments);
            assert!(
                !arguments.contains(temporary.to_str().unwrap()),
                "it still runs: {arguments}"
            );
        }
    }
}

/// The names of the VMMs, each of which must have the results of one boot.
fn names(report: &Value) -> Vec<&str> {
    let vmms = report["vmms"].as_array().unwrap();
    for vmm in vmms {
        assert_eq!((&vmm["status"], &vmm["boots"]), (&"ok".into(), &1.into()));
    }
    vmms.iter()
        .map(|vmm| vmm["name"].as_str().unwrap())
        .collect()
}

fn rows<'a>(report: &'a Value, vmm: &str) -> Vec<&'a Value> {
    let rows = report["results"].as_array().unwrap();
    rows.iter().filter(|row| row["backend"] == vmm).collect()
}

pub(super) fn row<'a>(report: &'a Value, vmm: &str, name: &str) -> &'a Value {
    let rows = rows(report, vmm);
    let row = rows.into_iter().find(|row| row["command"] == name);
    row.unwrap_or_else(|| panic!("{vmm} has no row {name}"))
}

/// Checks each row of a VMM against the table of rows without a number.
fn has_all_rows(report: &Value, vmm: &str, without: &Without) {
    for name in rows_of_all() {
        row(report, vmm, name);
    }
    for row in rows(report, vmm) {
        let name = row["command"].as_str().unwrap();
        let is_it = |(of, begins, _): &&(&str, &str, &str)| {
            (of.is_empty() || *of == vmm) && name.starts_with(begins)
        };
        match without.iter().find(is_it) {
            Some((_, _, reason)) => assert_eq!(row["reason"], *reason, "{vmm} {name}"),
            None => {
                assert_eq!(row["status"], "ok", "{vmm} {name}: {}", row["reason"]);
                assert!(row["median"].as_f64() > Some(0.0), "{vmm} {name}: {row}");
            }
        }
    }
}

/// Checks a VMM of the user's: each row has a number or a reason, and none hung.
fn has_numbers_or_reasons(report: &Value, vmm: &str) {
    let rows = rows(report, vmm);
    assert!(
        rows.len() >= rows_of_all().count(),
        "{vmm}: {} rows",
        rows.len()
    );
    for row in rows {
        let reason = row["reason"].as_str().unwrap_or_default();
        assert_ne!(reason.is_empty(), row["median"].is_null(), "{vmm} {row}");
        assert!(!reason.contains("hung"), "{vmm} {row}");
    }
}

/// The folder with the lab's QEMU under its usual name.
fn qemu(folder: &Folder) -> PathBuf {
    let cache = Cache::user().unwrap();
    let mut provision = Provision::new(
        Arch::host().unwrap(),
        &X86_64,
        &cache,
        LabProgress::new(true),
    );
    let script = provision.qemu(None).unwrap().script();
    let programs = folder.path("bin");
    fs::create_dir(&programs).unwrap();
    executable(&programs.join("qemu-system-x86_64"), &script);
    programs
}

fn first_on_path(command: &mut Command, folder: &Path) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders).unwrap());
}

fn executable(path: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
#[ignore = "needs the lab's QEMU: cargo xtask lab"]
fn qemus_boards_answer_every_row_by_emulation() {
    let folder = Folder::new();
    let programs = qemu(&folder);
    let boards = ["qemu-pc", "qemu-q35", "qemu-microvm"];
    let words = [
        &["bench", "vmms", "--accel", "tcg", "--runs", "1"],
        &FEW[..],
        &boards,
    ];
    let report = folder.report(&words.concat(), |command| first_on_path(command, &programs));
    assert_eq!(names(&report), boards);
    for vmm in report["vmms"].as_array().unwrap() {
        assert_eq!(vmm["emulated"], true);
        assert_eq!(vmm["guest"]["hypervisor"], "TCGTCGTCGTCG");
        let reason = "its CPU is emulated and has no exits";
        assert_eq!(vmm["exits_reason"], reason);
    }
    for board in boards {
        has_all_rows(&report, board, WITHOUT_BY_EMULATION);
    }
}

/// The facts about a VMM's guest.
fn guest<'a>(report: &'a Value, vmm: &str) -> &'a Value {
    let vmms = report["vmms"].as_array().unwrap();
    &vmms.iter().find(|facts| facts["name"] == vmm).unwrap()["guest"]
}

/// Runs QEMU with emulation and these arguments, as VMMs of the user's. In each, the rows have numbers.
fn by_emulation(folder: &Folder, vmms: &[(&str, &str)], rows: &str) -> Value {
    let programs = qemu(folder);
    let templates: Vec<String> = vmms
        .iter()
        .map(|(name, arguments)| {
            format!(
                "{name}=qemu-system-x86_64 -accel tcg -m 64 -nodefaults -no-user-config -no-reboot -display none \
                 -serial stdio {arguments}"
            )
        })
        .collect();
    let mut words = vec!["bench", "vmms", "--runs", "1", "--rows", rows];
    words.extend(FEW);
    for ((name, _), template) in vmms.iter().zip(&templates) {
        words.extend([name, "--vmm", template]);
    }
    let report = folder.report(&words, |command| first_on_path(command, &programs));
    for (vmm, _) in vmms {
        for name in rows.split(',') {
            let row = row(&report, vmm, name);
            assert_eq!(row["status"], "ok", "{vmm} {name}: {}", row["reason"]);
        }
    }
    report
}

#[test]
#[ignore = "needs the lab's QEMU: cargo xtask lab"]
fn the_image_comes_to_its_end_wherever_devices_are_said_to_be() {
    // Above the CPU's addresses, across their end, at the highest address, in the image, and at the local APIC.
    let places = [
        "0x3fffffffff00",
        "0x10000000000",
        "0xffffffff00",
        "0xffffffffffffff80",
        "0x200000",
        "0x210010",
        "0",
        "0xfee00000",
    ];
    let words = places.map(|place| format!(" virtio_mmio.device=4K@{place}:4294967295"));
    let arguments = format!(
        "-M microvm -kernel {{image}} -append '{{cmdline}}{}'",
        words.concat()
    );
    by_emulation(&Folder::new(), &[("hostile", &arguments)], "cpuid,timer");
}

#[test]
#[ignore = "needs the lab's QEMU: cargo xtask lab"]
fn devices_work_by_each_way_that_qemu_has() {
    let folder = Folder::new();
    let bzimage = folder.path("probe.bz");
    let bzimage = bzimage.to_str().unwrap();
    let written = Command::new(host_vmbell())
        .args([
            "bench", "vmms", "image", "--format", "bzimage", "-o", bzimage,
        ])
        .status();
    assert!(written.unwrap().success());
    let pc = "-M pc -kernel {image} -append {cmdline}";
    let bz = format!("-kernel '{bzimage}' -append {{cmdline}} -name {{image}}");
    let microvm = "-M microvm -kernel {image} -append {cmdline}";
    let vmms = [
        // The bzImage, through its 16-bit entry.
        (
            "bz",
            format!("-M pc {bz} -device virtio-rng-pci"),
            ["linux64", "pci-cf8", "msix"],
        ),
        // INTx, whose line number firmware wrote into the configuration space.
        (
            "intx",
            format!("{pc} -device virtio-rng-pci,vectors=0"),
            ["multiboot", "pci-cf8", "intx"],
        ),
        // The first device lacks the modern interface that the image needs.
        (
            "second",
            format!(
                "{pc} -device virtio-rng-pci,disable-modern=on,addr=4 -device virtio-rng-pci,addr=5"
            ),
            ["multiboot", "pci-cf8", "msix"],
        ),
        // The opposite order: the image keeps the device that works.
        (
            "stays",
            format!(
                "{pc} -device virtio-rng-pci,addr=4 -device virtio-rng-pci,disable-modern=on,addr=5"
            ),
            ["multiboot", "pci-cf8", "msix"],
        ),
        // Firmware puts BARs above 4 GiB if they do not fit below.
        (
            "high",
            format!("{pc} -device virtio-rng-pci -device pci-testdev,membar=8G"),
            ["multiboot", "pci-cf8", "msix"],
        ),
        // Version 1 of virtio-mmio, QEMU's default.
        (
            "legacy",
            format!("{microvm} -device virtio-rng-device"),
            ["multiboot", "dsdt", "line"],
        ),
        // No ACPI: QEMU lists the devices on the kernel's command line.
        (
            "cmdline",
            format!(
                "-M microvm,acpi=off {bz} -device virtio-rng-device -global virtio-mmio.force-legacy=false"
            ),
            ["linux64", "cmdline", "line"],
        ),
    ];
    let arguments: Vec<_> = vmms
        .iter()
        .map(|(vmm, arguments, _)| (*vmm, &**arguments))
        .collect();
    let rows = "virtio-rng-notify,virtio-rng-round-trip-interrupt";
    let report = by_emulation(&folder, &arguments, rows);
    for (vmm, _, expected) in &vmms {
        let guest = guest(&report, vmm);
        let device = &guest["devices"][0];
        let facts = [&guest["boot"], &device["found_by"], &device["interrupt"]];
        assert_eq!(facts, *expected, "{vmm}");
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn vmms_answer_every_row_on_kvm() {
    let folder = Folder::new();
    let run = |seed: &[&str]| {
        let suite = ["--", "vmbell", "bench", "vmms", "--runs", "1"];
        let words = [
            &["lab", "kernel", "--deterministic"],
            seed,
            &LIMITS[..],
            &suite,
        ]
        .concat();
        folder.run(&words, |command| {
            let further = ["--exits", "on", "--vmm", NO_IOEVENTFD];
            command.args(FEW).args(further);
            // A guest that hangs executes instructions until this limit.
            command.args(["--run-timeout", "4s"]);
        })
    };
    // A guest may hang under emulated SVM (docs/emulator-bugs.md), and again in each boot with this layout, so another
    // layout is tried.
    let report = run(&[]).or_else(|shown| match shown.contains("took longer than") {
        true => run(&["--seed", "2"]),
        false => Err(shown),
    });
    let report = report.unwrap_or_else(|shown| panic!("{shown}"));
    assert_eq!(report["unit"], "instructions");
    let known = ["qemu-pc", "qemu-q35", "qemu-microvm", "vmbell"];
    let (ours, others): (Vec<&str>, Vec<&str>) =
        names(&report).iter().partition(|name| known.contains(name));
    assert_eq!(ours, known);
    for vmm in known {
        has_all_rows(&report, vmm, WITHOUT_ON_KVM);
        assert_eq!(guest(&report, vmm)["apic"], "xapic", "{vmm}");
        exits::are_as_known(&report, vmm);
    }
    exits::are_as_known(&report, "no-ioeventfd");
    // The device's line is on a second I/O APIC.
    let device = &guest(&report, "qemu-microvm")["devices"][0];
    assert_eq!(
        (&device["gsi"], &device["interrupt"]),
        (&47.into(), &"line".into())
    );
    // The others are the board without an ioeventfd, and alioth if it is installed, whose rows depend on its version.
    for vmm in others {
        has_numbers_or_reasons(&report, vmm);
    }
    for vmm in known {
        for (more, less) in COSTS_MORE {
            let [more_costs, less_costs] =
                [more, less].map(|name| row(&report, vmm, name)["min"].as_f64());
            if let (Some(more_costs), Some(less_costs)) = (more_costs, less_costs) {
                assert!(
                    more_costs > less_costs,
                    "{vmm}: {more} {more_costs}, {less} {less_costs}"
                );
            }
        }
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_boot_of_linux_is_counted_by_reason_and_by_address() {
    let mut lab = super::boots::lab(&["--deterministic"]);
    lab.args(["--", "vmbell", "bench", "vmms", "vmbell"]);
    let output = output(lab.args(["--rows", "cpuid", "--exits", "on", "--linux"]));
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    let (exits, addresses) = shown
        .split_once("\nlinux-boot: accesses by address")
        .unwrap_or_else(|| panic!("{shown}"));
    let row = exits.lines().rfind(|line| line.starts_with("linux-boot "));
    let (_, to_vmm) = row.and_then(|row| row.split_once('(')).unwrap();
    let to_vmm: u64 = to_vmm.trim_end_matches(')').parse().unwrap();
    // Linux finds the PCI devices through these ports, and prints on the serial port.
    assert!(to_vmm > 1000, "{shown}");
    for address in ["port 0xcf8", "port 0xcfc", "port 0x3f8"] {
        assert!(addresses.contains(address), "{shown}");
    }
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_kernel_that_spins_is_booted_once_more_and_the_report_says_so() {
    let folder = TempDir::new().unwrap();
    let kernel = folder.path().join("kernel");
    fs::write(&kernel, kernel_that_spins()).unwrap();
    let mut lab = super::boots::lab(&["--deterministic"]);
    lab.args(["--", "vmbell", "bench", "vmms", "vmbell", "--rows", "cpuid"]);
    let output = output(lab.arg(format!("--linux={}", kernel.display())));
    let shown: Vec<&str> = text(&output.stdout).split_whitespace().collect();
    let shown = shown.join(" ");
    let reason = "Linux did not finish booting; the guest spun for 250ms without an exit";
    for said in [
        format!("a boot hung and was repeated: {reason}"),
        format!("not on vmbell: linux-boot {reason}"),
    ] {
        assert!(shown.contains(&said), "{shown}");
    }
}
