//! The arguments of `vmbell bench vmms`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::libkrun::LibkrunArgs;
use super::linux;
use super::template::{self, VmmTemplate};
use crate::args::{GUEST, MEASUREMENT, SUBJECT};
use crate::suites::boots::args::ColumnArgs;
use vmbell_bench::did_you_mean;
use vmbell_probe_image::names;

const EXAMPLES: &str = "\
Examples:
  vmbell list vmms                         show which VMMs are installed
  vmbell bench vmms                        measure all of them
  vmbell bench vmms image -o probe.elf     write the guest image to a file
  vmbell lab -- vmbell bench vmms          count instructions, without /dev/kvm
  vmbell bench vmms qemu-pc qemu-microvm --ratios
      show the second VMM relative to the first
  vmbell bench vmms --rows cpuid,pio-unassigned --runs 10
      measure only these rows, in more boots
  vmbell bench vmms \\
      --vmm mine='my-vmm --kernel {image} --append {cmdline} --disk {disk}'
      add a VMM by its command line
  vmbell bench vmms alioth --vmm alioth=./target/release/alioth
      measure your own build of a VMM that vmbell knows

Exit status:
  0    every VMM gave results
  1    a VMM failed, or a file could not be written
  2    the arguments are wrong
  77   no VMM can run here, or no row was measured
  124  the time limit (--timeout) expired; finished results are written
  130  interrupted by SIGINT (143: by SIGTERM); finished results are written
";

/// The value of --linux for the lab's own kernel.
pub(crate) const LAB_KERNEL: &str = "lab";

/// The default devices of a VMM.
pub(crate) const DEVICES: [VmmDeviceName; 2] = [VmmDeviceName::Rng, VmmDeviceName::Blk];

/// Measure QEMU, alioth, vmbell and other VMMs with one guest image
///
/// The VMMs are booted in turns, so that changes on the host affect all of them. Each has its own defaults for the CPU
/// model and the mode of the interrupt controller, which the table shows.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct VmmsArgs {
    #[command(subcommand)]
    pub(super) command: Option<VmmCommand>,

    /// Measure these VMMs: names of `vmbell list vmms` or of --vmm [default: all that are found]
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,

    /// Add a VMM by its command line, in which {image} becomes the image's path, {cmdline} its command line, {disk} the
    /// path of an empty disk and {cpus} the number of --vcpus; {bzimage} is the image as a bzImage
    ///
    /// The command must print the guest's serial port (0x3f8) on its standard output. It is split into words as by a
    /// shell, but no shell runs. docs/vmm.md has commands for some VMMs. For a VMM of `vmbell list vmms`, the path of
    /// its program is enough.
    #[arg(long, value_name = "NAME=COMMAND|PATH", value_parser = template::parse, help_heading = SUBJECT)]
    pub(super) vmm: Vec<VmmTemplate>,

    /// Also boot Linux in each VMM, until its kernel finds no root file system, and count its exits by reason and
    /// address; in the lab, FILE defaults to the lab's own kernel
    ///
    /// FILE is a kernel that the VMM takes as its image: a vmlinux with a PVH entry for the VMMs that vmbell knows. The
    /// row is `linux-boot`. In a --vmm, {memory} becomes the memory in MiB: 64 for the image, 256 for Linux.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = LAB_KERNEL, help_heading = SUBJECT)]
    pub(crate) linux: Option<PathBuf>,

    /// Give each VMM these virtio devices, if it supports them
    #[arg(long = "virtio", value_enum, value_name = "DEVICE,...", value_delimiter = ',', default_values_t = DEVICES, help_heading = GUEST)]
    pub(super) device: Vec<VmmDeviceName>,

    /// Give each guest N vCPUs; with 1, the row `ipi-to-vcpu` is not measured
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64), help_heading = GUEST)]
    pub(super) vcpus: u32,

    /// Run QEMU with this accelerator
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Accel::Auto, help_heading = GUEST)]
    pub(super) accel: Accel,

    /// Measure only these rows
    #[arg(long = "rows", value_name = "ROW,...", value_delimiter = ',', value_parser = row, help_heading = SUBJECT)]
    pub(super) only: Vec<String>,

    /// Measure each row in N batches per boot
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=i64::from(vmbell_probe_image::cmdline::MAX_BATCHES)), help_heading = MEASUREMENT)]
    pub(super) batches: u32,

    /// Run N operations in a batch
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(vmbell_probe_image::cmdline::MAX_OPERATIONS)), help_heading = MEASUREMENT)]
    pub(super) ops: u32,

    #[command(flatten)]
    pub(super) columns: ColumnArgs,
}

impl VmmsArgs {
    /// Whether the kernel of --linux is the lab's own.
    pub(crate) fn wants_lab_kernel(&self) -> bool {
        let lab = |kernel: &PathBuf| kernel.as_os_str() == LAB_KERNEL;
        self.linux.as_ref().is_some_and(lab)
    }

    /// Fails if a row of --rows would never be measured.
    pub(super) fn check_rows(&self) -> Result<(), String> {
        check_rows(&self.only, &self.device, self.linux.is_some(), "--")
    }

    /// The programs of --vmm, by the user's names.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &str> {
        let words = self.vmm.iter().flat_map(|vmm| vmm.words.first());
        words.map(String::as_str)
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum VmmCommand {
    /// Load libkrun and become its VMM, with a guest
    #[command(hide = true)]
    BootByLibkrun(LibkrunArgs),
    /// Write the guest image to a file
    Image {
        /// Write to this file; - is stdout
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        /// Write the file in this format
        #[arg(long, value_enum, default_value_t = ProbeImageFormat::Elf)]
        format: ProbeImageFormat,
    },
}

/// A format of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ProbeImageFormat {
    /// An ELF64 for PVH, Linux's 64-bit entry and Multiboot 1
    Elf,
    /// A bzImage, for VMMs that take no ELF
    Bzimage,
}

/// A virtio device that a VMM is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VmmDeviceName {
    /// An entropy device
    Rng,
    /// A disk of 1 MiB
    Blk,
    /// A console without a reader
    Console,
    /// A network card without a network
    Net,
}

impl VmmDeviceName {
    /// The device's name in names of rows.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rng => "rng",
            Self::Blk => "blk",
            Self::Console => "console",
            Self::Net => "net",
        }
    }

    /// The device that a row measures.
    fn of_row(row: &str) -> Option<Self> {
        let kind = row.strip_prefix("virtio-")?.split('-').next()?;
        let mut all = Self::value_variants().iter().copied();
        all.find(|device| device.name() == kind)
    }
}

/// Run QEMU with this accelerator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Accel {
    /// KVM if /dev/kvm opens, otherwise TCG
    Auto,
    /// The kernel's KVM
    Kvm,
    /// QEMU's emulation: the column is marked as emulated
    Tcg,
}

/// Parses the name of a row of the image, or of the Linux boot.
pub(crate) fn row(text: &str) -> Result<String, String> {
    let names: Vec<&str> = names::ROWS.into_iter().chain([linux::ROW]).collect();
    if names.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(match did_you_mean(text, &names).as_str() {
        "" => format!("no row has this name; the rows are {}", names.join(", ")),
        hint => format!("no row has this name{hint}"),
    })
}

/// Fails if one of these rows would never be measured because it needs a device or a boot of Linux. `dashes` precede
/// the option names in the error.
pub(crate) fn check_rows(
    rows: &[String],
    devices: &[VmmDeviceName],
    has_linux: bool,
    dashes: &str,
) -> Result<(), String> {
    for row in rows {
        match VmmDeviceName::of_row(row) {
            Some(device) if !devices.contains(&device) => {
                let name = device.name();
                return Err(format!(
                    "the row {row} needs the device {name}: add it to {dashes}virtio"
                ));
            }
            None if row == linux::ROW && !has_linux => {
                return Err(format!("the row {row} needs {dashes}linux"));
            }
            _ => {}
        }
    }
    Ok(())
}
