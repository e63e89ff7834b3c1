//! `vmbell run IMAGE`: runs a guest that was made for QEMU's PC, such as those of kvm-unit-tests, or a kernel of Linux.
//! On arm64 it is a kernel of Linux or a flat file made for QEMU's machine `virt`.

mod assign;
mod commas;
mod console;
mod cpu;
mod device;
mod ending;
mod plug;
mod virt;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use self::device::RunDevice;
use self::ending::{FAILED, RunEnding};
use self::plug::PluggedParts;
use crate::args::MACHINE;
use crate::args::values;
use crate::confine::{self, DeviceNeeds};
use vmbell_devices::Output;
use vmbell_devices::virtio::Notify;
use vmbell_hypervisor::aarch64::IMAGE_RAM;
use vmbell_hypervisor::{Capability, CpuFeatures, Hypervisor};
use vmbell_vmm::{
    Arm64Image, Boot, BootFile, Image, MEMORY_MAX, Module, OnTripleFault, Pc, PcConfig, PcModel,
    VCPUS_MAX,
};

/// Headings of options in `--help`.
const IMAGE: &str = "What it boots with";
const RUN: &str = "The run";

const EXAMPLES: &str = "\
Examples:
  vmbell run vmlinuz --initrd initrd.img --append console=ttyS0 -m 512M \\
      --device virtio-blk,file=disk.img
      boot Linux with a disk
  vmbell run vmlinuz --initrd initrd.img --machine micro --append console=ttyS0
      boot Linux with the fewest exits
  vmbell run vmlinuz --initrd initrd.img --nested-guest \\
      --device virtio-net,tap=tap0
      boot Linux with a network, on a host that is itself a guest
  vmbell run kernel.elf --device vfio-pci,host=0000:00:03.0
      give the guest a PCI device of the host
  vmbell run x86/vmexit.flat --device pci-testdev
      run kvm-unit-tests' vmexit
  vmbell run x86/vmexit.flat --vcpus 2 --append 'cpuid vmcall ipi'
      run some of its tests
  vmbell run x86/ioapic.flat --vcpus 4 --device pc-testdev
      test the I/O APIC
  vmbell run x86/apic.flat --vcpus 2 --device pc-testdev --cpu-features -x2apic
      test the local APIC without x2APIC
  vmbell run arm/selftest.flat --device chr-testdev --append vectors-kernel
      run a test on arm64
  vmbell run x86/vmexit.flat --sandbox off
      find out whether the sandbox causes a problem
  vmbell lab -- vmbell run x86/vmexit.flat
      run on a machine without /dev/kvm

Exit status:
  2N+1  the guest wrote N to port 0xf4, as with QEMU's isa-debug-exit, or to
        chr-testdev; only the low 8 bits count
  0     the guest powered off (port 0x8900, ACPI's S5, PSCI) or reset (port
        0x64 or 0x92, PSCI)
  2     the arguments are wrong
  124   the time limit (--timeout) expired
  126   the image, the machine or the guest failed
  130   interrupted by SIGINT, or by Ctrl-A x at a kernel's console (143: by
        SIGTERM)
  141   the reader of the output closed it
  148   a thread made a system call that its sandbox forbids; stderr names it
";

/// Boot a Linux kernel or an image of kvm-unit-tests on KVM
///
/// An image is a multiboot file for QEMU's PC, which boots unmodified. The guest finds RAM from 0, interrupt
/// controllers and timers, a serial port, PCI, ACPI tables and QEMU's firmware configuration. The serial port prints to
/// stdout. It is the console of a Linux kernel, with stdin as its input. If stdin is a terminal, every key goes to the
/// guest, and Ctrl-A x ends the run.
///
/// On arm64 the guest is a Linux kernel, or a flat file for QEMU's machine `virt`, such as those of kvm-unit-tests
/// (docs/kvm-unit-tests.md). It finds RAM from 1 GiB, and a device tree with the serial port and with virtio devices on
/// registers in memory.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct RunArgs {
    /// Boot this file: a Linux kernel (bzImage, or vmlinux with CONFIG_PVH), an ELF with a multiboot 1 header, or a
    /// flat file whose header has addresses; on arm64 an uncompressed Image of Linux
    image: PathBuf,

    /// Plug in a device; `--help` lists them
    #[arg(long, value_name = "NAME[,PROPERTY=VALUE]...", value_parser = device::device, long_help = device::help(), help_heading = MACHINE)]
    device: Vec<RunDevice>,

    /// Choose the hardware of an x86-64 guest
    #[arg(
        long,
        value_name = "MODEL",
        value_enum,
        default_value = "pc",
        hide_possible_values = true,
        long_help = MACHINES, help_heading = MACHINE
    )]
    machine: MachineModel,

    /// Write the device-tree nodes of platform devices to a file, as a compiled tree
    #[arg(long, value_name = "FILE", help_heading = MACHINE)]
    dump_dtb: Option<PathBuf>,

    /// Give the guest these arguments: the command line of a kernel, or the arguments of a multiboot image
    #[arg(
        long,
        value_name = "ARGUMENTS",
        default_value = "",
        allow_hyphen_values = true, help_heading = IMAGE
    )]
    append: String,

    /// Give the guest N vCPUs, at most 64; all but the first wait until they are started
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = vcpus(), help_heading = MACHINE)]
    vcpus: u16,

    /// Hide these features of the CPU from the guest, such as `-x2apic,-pcid`
    ///
    /// The names are those of /proc/cpuinfo. The guest sees all other features that KVM supports on this CPU. A feature
    /// that the CPU does not have may also be hidden.
    #[arg(long, value_name = "-NAME,...", default_value = "", hide_default_value = true, allow_hyphen_values = true, value_parser = cpu::hidden, help_heading = MACHINE)]
    cpu_features: CpuFeatures,

    /// Offer paravirtual EOI: the guest ends interrupts by a bit in its memory, without an exit
    #[arg(
        long,
        value_name = "on|off",
        default_value = "on",
        hide_possible_values = true,
        value_parser = ["on", "off"], help_heading = MACHINE
    )]
    pv_eoi: String,

    /// Reduce the exits of a guest whose host is itself a guest, such as a cloud instance (docs/nested.md)
    ///
    /// An exit of such a guest costs several times as much. Virtio devices poll unless their `notify` says otherwise,
    /// so that drivers need not notify. A Linux kernel gets the parameter `virtio_net.napi_tx=0`, which turns off the
    /// interrupts for packets that were sent; --append can turn them on again.
    #[arg(long, help_heading = MACHINE)]
    nested_guest: bool,

    /// Give the guest nested virtualization, so that a Linux in it has KVM (docs/nested.md)
    ///
    /// On arm64 its vCPUs start at EL2, for which the host's Linux needs the parameter `kvm-arm.mode=nested` and a CPU
    /// with FEAT_NV2. A guest of x86-64 also has it without this option if KVM offers it. With the option, it is an
    /// error if KVM does not.
    #[arg(long, help_heading = MACHINE)]
    virtualization: bool,

    /// Give the guest this much RAM, such as 64M; from 2M to 3G (arm64: 3008M)
    #[arg(short, long, value_name = "SIZE", default_value = "128M", value_parser = values::size, help_heading = MACHINE)]
    memory: u64,

    /// Give the kernel this initrd, a cpio archive that may be compressed, or give a multiboot image these modules
    ///
    /// Modules are FILE or `FILE ARGUMENTS`, with a comma between two. Each module gets its own text. A comma in it is
    /// written twice.
    #[arg(long, value_name = "FILE", help_heading = IMAGE)]
    initrd: Option<PathBuf>,

    /// Give the guest this file of lines NAME=VALUE: the first module of a multiboot image, or the initrd of an arm64
    /// flat file
    #[arg(long, value_name = "FILE", help_heading = IMAGE)]
    env: Option<PathBuf>,

    /// Stop the guest after this time and exit with 124; 0 is no limit
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = values::duration, help_heading = RUN)]
    timeout: Duration,

    /// End the run with an error after a triple fault of an x86-64 guest (exit), or reset the guest, as a PC does
    /// (reset)
    ///
    /// A reset ends the run with status 0.
    #[arg(long, value_name = "exit|reset", hide_possible_values = true, help_heading = RUN)]
    on_triple_fault: Option<TripleFault>,

    /// Drop all rights that running the guest does not need, before its first instruction
    ///
    /// The threads lose all capabilities and can open no files. A system call that is not part of a thread's work ends
    /// the run (docs/security.md).
    #[arg(
        long,
        value_name = "on|off",
        default_value = "on",
        hide_possible_values = true,
        value_parser = ["on", "off"], help_heading = RUN
    )]
    sandbox: String,

    /// Run the guest on this backend
    #[arg(long, value_enum, default_value_t = RunBackend::Kvm, help_heading = RUN)]
    backend: RunBackend,
}

impl RunArgs {
    fn confines(&self) -> bool {
        self.sandbox == "on"
    }

    /// How the drivers of virtio devices notify, unless `--device` says it.
    const fn notify(&self) -> Notify {
        match self.nested_guest {
            true => Notify::Poll,
            false => Notify::Doorbell,
        }
    }

    /// The guest's arguments.
    fn arguments(&self, is_kernel: bool) -> String {
        match self.nested_guest && is_kernel {
            // If a parameter is given twice, the last one counts.
            true => format!("{NESTED_WORDS} {}", self.append),
            false => self.append.clone(),
        }
    }
}

/// What Linux gets with `--nested-guest`: its network driver frees a packet when it sends another, and not at an
/// interrupt.
const NESTED_WORDS: &str = "virtio_net.napi_tx=0";

const MACHINES: &str = "\
Choose the hardware of an x86-64 guest:
  pc     what images for QEMU's PC expect: interrupt controllers with
         lines, timer, clock, PCI by ports
  micro  what Linux needs, with the fewest exits: x2APIC, PCI in memory,
         devices that interrupt by MSI-X (docs/linux.md)";

/// What a triple fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TripleFault {
    Exit,
    Reset,
}

impl From<TripleFault> for OnTripleFault {
    fn from(choice: TripleFault) -> Self {
        match choice {
            TripleFault::Exit => Self::Exit,
            TripleFault::Reset => Self::Reset,
        }
    }
}

/// The hardware of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MachineModel {
    Pc,
    Micro,
}

impl From<MachineModel> for PcModel {
    fn from(model: MachineModel) -> Self {
        match model {
            MachineModel::Pc => Self::Full,
            MachineModel::Micro => Self::Micro,
        }
    }
}

/// The parser of a number of vCPUs.
fn vcpus() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=i64::from(VCPUS_MAX))
}

/// The backends that can run an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RunBackend {
    /// The kernel's KVM, /dev/kvm
    Kvm,
}

/// Runs the image; the exit status says how it ended.
pub(super) fn run(args: &RunArgs) -> ExitCode {
    match boot(args) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

/// Reads the files before it opens KVM: an error in a file is an error on every host that can run images.
fn boot(args: &RunArgs) -> Result<u8> {
    let RunBackend::Kvm = args.backend;
    if args.confines() {
        let mut devices = DeviceNeeds {
            config_memory: args.machine == MachineModel::Micro,
            ..DeviceNeeds::default()
        };
        args.device
            .iter()
            .for_each(|device| device.needs(&mut devices));
        confine::begin(&devices)?;
    } else {
        eprintln!(
            "warning: --sandbox off: a guest that takes this process over can do what you can"
        );
    }
    if cfg!(target_arch = "aarch64") {
        let image = Arm64Image::open(&args.image)?;
        let boot = files(args, image.is_kernel(), false)?;
        return virt::boot_on(&*kvm()?, args, &image, &boot);
    }
    let image = Image::open(&args.image)?;
    let boot = files(args, image.is_kernel(), !image.is_kernel())?;
    boot_on(&*kvm()?, args, &image, &boot)
}

/// The arguments and files for the guest, which takes an initrd or modules.
fn files(args: &RunArgs, is_kernel: bool, takes_modules: bool) -> Result<Boot> {
    let open = |what, path: Option<&Path>| {
        let open = |path| file(what, path, args.memory);
        path.map(open).transpose()
    };
    let initrd = args.initrd.as_deref();
    Ok(Boot {
        arguments: args.arguments(is_kernel),
        environment: open("environment file", args.env.as_deref())?,
        initrd: open("initrd", initrd.filter(|_| !takes_modules))?,
        modules: match initrd.filter(|_| takes_modules) {
            Some(list) => modules(list, args.memory)?,
            None => Vec::new(),
        },
    })
}

/// The modules in a list, each with its file's name before its arguments, as in QEMU.
fn modules(list: &Path, memory: u64) -> Result<Vec<Module>> {
    let list = list.to_str().context("--initrd is not UTF-8")?;
    let module = |command_line: String| {
        let name = command_line.split(' ').next().unwrap_or_default();
        let file = file("module", Path::new(name), memory)?;
        Ok(Module { command_line, file })
    };
    commas::split(list).into_iter().map(module).collect()
}

fn kvm() -> Result<Box<dyn Hypervisor>> {
    let command = std::env::args_os().skip(1).collect();
    vmbell_vmm::Backend::Kvm
        .open()
        .with_context(|| elsewhere(command))
}

/// The maximum RAM of a guest on this CPU.
const MEMORY_MOST: u64 = if cfg!(target_arch = "aarch64") {
    IMAGE_RAM.end - IMAGE_RAM.start
} else {
    MEMORY_MAX
};

/// A file for a guest with this number of bytes of RAM.
fn file(what: &str, path: &Path, memory: u64) -> Result<BootFile> {
    let name = path.display();
    match BootFile::open(path, memory) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            // The length of a pipe is not known.
            let len = fs::metadata(path).map_or(0, |metadata| metadata.len());
            let advice = match memory.max(len) < MEMORY_MOST {
                true => ": give it more (--memory)".to_owned(),
                false => format!(", and no machine has more than {MEMORY_MOST} bytes"),
            };
            bail!("{what} {name} does not fit into the machine's memory of {memory} bytes{advice}")
        }
        opened => opened.with_context(|| format!("cannot read {what} {name}")),
    }
}

/// The hint for a host without KVM: how to run the same command in the lab.
fn elsewhere(command: Vec<OsString>) -> String {
    let command: Vec<String> = command.into_iter().map(quoted).collect();
    format!(
        "this needs KVM; `vmbell lab -- vmbell {}` has its own",
        command.join(" ")
    )
}

/// The argument, quoted for a shell if it needs that.
fn quoted(argument: OsString) -> String {
    let text = argument.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn boot_on(hypervisor: &dyn Hypervisor, args: &RunArgs, image: &Image, boot: &Boot) -> Result<u8> {
    let config = PcConfig {
        model: args.machine.into(),
        memory: args.memory,
        vcpus: args.vcpus,
        hidden: args.cpu_features,
        pv_eoi: args.pv_eoi == "on",
        on_triple_fault: args.on_triple_fault.map(Into::into).unwrap_or_default(),
        shared_memory: args.device.iter().any(RunDevice::shares_memory),
    };
    if args.virtualization {
        let required = hypervisor.require(Capability::Virtualization);
        required.context("cannot give the guest virtualization")?;
    }
    if args.device.iter().any(RunDevice::needs_payloads) {
        let required = hypervisor.require(Capability::PayloadDoorbell);
        required.context("cannot offer notification-data")?;
    }
    let output = output()?;
    let pc = Pc::new(hypervisor, config, &output)?;
    let PluggedParts { nodes, keys } = plug::all(&pc, &args.device, args.notify(), &output)?;
    if let Some(path) = &args.dump_dtb {
        assign::dump(&nodes, path)?;
    }
    // Only a kernel reads what the user types; the other images leave standard input to the shell.
    let input = match keys {
        Some(keys) => Some(keys.input()),
        None if image.is_kernel() => Some(console::of_port(pc.serial())),
        None => {
            if args.confines() {
                confine::close_stdin().context("cannot replace standard input by /dev/null")?;
            }
            None
        }
    };
    let ending = RunEnding::begin(args.timeout, input, output)?;
    let stop = pc.run(image, boot, ending.is_due());
    ending.status(stop)
}

/// What the guest prints, on its way to standard output.
fn output() -> Result<Output> {
    Output::stdout().context("cannot print what the guest prints")
}

#[cfg(test)]
#[path = "run_test.rs"]
mod tests;
