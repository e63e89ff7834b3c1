//! `vmbell run IMAGE`: runs a guest that was made for QEMU's PC, such as those of kvm-unit-tests, or a kernel of Linux.
//! On arm64 it is a kernel of Linux or a flat file made for QEMU's machine `virt`.

mod assign;
mod console;
mod cpu;
mod device;
mod ending;
mod plug;
mod virt;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use self::device::Device;
use self::ending::Ending;
use self::plug::Plugged;
use super::values;
use crate::confine::{self, Devices};
use vmbell_hypervisor::{CpuFeatures, Hypervisor};
use vmbell_vmm::{Arm64Image, Boot, BootFile, Image, Pc, PcConfig, VCPUS_MAX};

const EXAMPLES: &str = "\
Examples:
  vmbell run x86/vmexit.flat --device pci-testdev
  vmbell run x86/vmexit.flat --vcpus 2 --append 'cpuid vmcall ipi'
  vmbell run x86/ioapic.flat --vcpus 4 --device pc-testdev
  vmbell run x86/apic.flat --vcpus 2 --device pc-testdev --cpu-features -x2apic
  vmbell run kernel.elf --device vfio-pci,host=0000:00:03.0
  vmbell run x86/vmexit.flat --device pci-testdev,pv=on --append 'pci-mem pci-io'
  vmbell run vmlinuz --initrd initrd.img --append console=ttyS0 -m 512M --device virtio-blk,file=disk.img
  vmbell run Image --initrd initrd.img --append console=ttyS0 --vcpus 2 --device virtio-rng    on arm64
  vmbell run arm/selftest.flat --device chr-testdev --append vectors-kernel                  on arm64
  vmbell run x86/vmexit.flat --sandbox off    with every system call, to find out whether the sandbox is in the way
  vmbell lab -- vmbell run x86/vmexit.flat    where there is no /dev/kvm

Exit status: odd ones are the guest's, and even ones the command's
  2N+1  the guest wrote N to port 0xf4, as with QEMU's isa-debug-exit, or sent it to chr-testdev; cut to 8 bits
  0     the guest switched the machine off (port 0x8900, ACPI's S5, or PSCI) or reset it (port 0x64 or 0x92, or PSCI)
  2     the arguments make no sense
  124   the time limit (--timeout) ran out
  126   the image, the machine or the guest failed
  130   interrupted (SIGINT, or Ctrl-A x at a kernel's console), 143 by SIGTERM
  148   a thread made a system call that its sandbox does not allow, which a line on stderr names
";

/// Boot a kernel of Linux, or a multiboot image made for QEMU's PC, e.g. of kvm-unit-tests, unmodified
///
/// The guest finds RAM from 0, interrupt controllers and timers, a serial port, whose output goes to
/// stdout, PCI, ACPI tables and QEMU's firmware configuration. The serial port is the console of a kernel: its input
/// is stdin. If that is a terminal, every key goes to the guest, and Ctrl-A x ends the run.
///
/// On arm64 the guest is a kernel of Linux, or a flat file made for QEMU's machine `virt`, such as kvm-unit-tests' (see
/// docs/virt.md). It finds RAM from 1 GiB and a device tree, which tells of the same serial port, and of virtio devices on
/// registers in memory.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct RunArgs {
    /// The image: a kernel of Linux (bzImage, or vmlinux with CONFIG_PVH), an ELF with a multiboot 1 header, or a flat
    /// file whose header has addresses; on arm64 an uncompressed Image of Linux
    image: PathBuf,

    /// A device to plug in: `virtio-rng`, `virtio-console`, `virtio-blk,file=FILE[,readonly=on]`, `virtio-net,tap=NAME[,mac=ADDRESS][,vhost=on][,offload=off]`,
    /// `virtio-vsock,cid=N`, `vhost-user-blk,socket=PATH`, each with `[,notify=exit][,interrupt=call][,packed=on][,transport=mmio]`; `vfio-pci,host=ADDRESS[,mmap=off]`,
    /// `vfio-platform,host=NAME[,mmap=off][,dtb=FILE]`, `pc-testdev` or `pci-testdev[,membar=SIZE][,pv=on]`
    ///
    /// virtio-rng gives the guest random bytes of the host, virtio-console a second console on stdin and stdout, whose input
    /// the serial port then has no more, virtio-blk a disk of a file or block device of the host,
    /// virtio-net a network interface at the other end of a tap (`ip tuntap add dev tap0 mode tap user $USER`), and
    /// virtio-vsock sockets to programs of the host, as virtio devices on PCI. With transport=mmio, and on arm64 always, they
    /// have registers in memory and a line. With vhost=on, and for virtio-vsock always, the kernel serves the queues. The
    /// disk of vhost-user-blk is that of another process, which listens at a socket. With offload=off each packet is whole,
    /// and not longer than a frame. A notification is an ioeventfd, which wakes a thread of the device, or an exit of the
    /// vCPU (notify=exit), which then does the device's work. An interrupt is an irqfd, or a call for each message
    /// (interrupt=call). With packed=on the guest's driver may choose packed rings.
    ///
    /// vfio-pci gives the guest a PCI device of the host, which has to be bound to a driver of VFIO (`vmbell probe
    /// --devices` says what stands in the way, and docs/passthrough.md how to do it). Its registers are mapped into
    /// the guest, unless mmap is off; its interrupts reach the guest by irqfd. vfio-platform does the same for a
    /// platform device: its registers are above 3 GiB and its lines are pins of the I/O APIC, which lines on stderr
    /// and --dump-dtb tell. What else its node has comes from the host's device tree, or from a compiled tree of your
    /// own (dtb).
    ///
    /// chr-testdev is for arm64's kvm-unit-tests, which give it the exit status.
    ///
    /// pc-testdev has interrupt lines at port 0x2000, a latch at 0xe0 and memory at 0xff000000, all for
    /// tests. pci-testdev has doorbells to measure: membar gives it a third BAR of that size. pv adds a fourth
    /// test to each BAR, a doorbell for writes of any length, and lets the wildcard test take one byte only.
    #[arg(long, value_name = "DEVICE", value_parser = device::device)]
    device: Vec<Device>,

    /// Write the device-tree nodes of platform devices to a file, as a compiled tree
    #[arg(long, value_name = "FILE")]
    dump_dtb: Option<PathBuf>,

    /// Arguments for the guest: a kernel's command line. A multiboot image finds its name before them
    #[arg(
        long,
        value_name = "ARGUMENTS",
        default_value = "",
        allow_hyphen_values = true
    )]
    append: String,

    /// Give the guest N vCPUs, at most 64; all but the first wait until they are started
    #[arg(long, alias = "smp", value_name = "N", default_value_t = 1, value_parser = vcpus())]
    vcpus: u16,

    /// Hide these features of the CPU from the guest, e.g. `-x2apic,-pcid`
    ///
    /// The names are those of /proc/cpuinfo. The guest sees all others that KVM supports on this CPU. To hide
    /// what the CPU does not have is no error.
    #[arg(long, alias = "cpu", value_name = "-NAME,...", default_value = "", hide_default_value = true, allow_hyphen_values = true, value_parser = cpu::hidden)]
    cpu_features: CpuFeatures,

    /// Whether the guest may end an interrupt by a bit in its memory, without an exit
    #[arg(
        long,
        value_name = "on|off",
        default_value = "on",
        hide_possible_values = true,
        value_parser = ["on", "off"]
    )]
    pv_eoi: String,

    /// RAM, e.g. 64M; from 2M to 3G (arm64: 3008M)
    #[arg(short, long, value_name = "SIZE", default_value = "128M", value_parser = values::size)]
    memory: u64,

    /// The first file system of a kernel: a cpio archive, compressed or not
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,

    /// A file of lines NAME=VALUE: a multiboot image's module, or the initrd of an arm64 flat file
    #[arg(long, value_name = "FILE")]
    env: Option<PathBuf>,

    /// Stop after this time and exit with 124; 0 for no limit
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = values::duration)]
    timeout: Duration,

    /// Whether this process gives up, before the guest's first instruction, what it does not need to run it
    ///
    /// Its threads lose all capabilities and all access to files, and a thread that makes another system call than
    /// those of its work ends the run. docs/security.md has the details.
    #[arg(
        long,
        value_name = "on|off",
        default_value = "on",
        hide_possible_values = true,
        value_parser = ["on", "off"]
    )]
    sandbox: String,

    /// What runs the guest
    #[arg(long, value_enum, default_value_t = Backend::Kvm)]
    backend: Backend,
}

impl RunArgs {
    fn confines(&self) -> bool {
        self.sandbox == "on"
    }
}

/// The parser of a number of vCPUs.
fn vcpus() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(1..=i64::from(VCPUS_MAX))
}

/// The backends that can run an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// The kernel's own virtualization, /dev/kvm
    Kvm,
}

/// The exit status of every failure except wrong arguments. It is even, so no guest can have it (see
/// [`status`]).
const FAILED: u8 = 126;

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
    let Backend::Kvm = args.backend;
    if args.confines() {
        let mut devices = Devices::default();
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
        let boot = files(args)?;
        return virt::boot_on(&*kvm()?, args, &image, &boot);
    }
    let image = Image::open(&args.image)?;
    let boot = files(args)?;
    boot_on(&*kvm()?, args, &image, &boot)
}

/// The arguments and files for the guest.
fn files(args: &RunArgs) -> Result<Boot> {
    Ok(Boot {
        arguments: args.append.clone(),
        environment: file("environment file", args.env.as_deref(), args.memory)?,
        initrd: file("initrd", args.initrd.as_deref(), args.memory)?,
    })
}

fn kvm() -> Result<Box<dyn Hypervisor>> {
    let command = std::env::args_os().skip(1).collect();
    vmbell_vmm::Backend::Kvm
        .open()
        .with_context(|| elsewhere(command))
}

/// A file, if the user named one, for a guest with so many bytes of RAM.
fn file(what: &str, path: Option<&Path>, memory: u64) -> Result<Option<BootFile>> {
    let Some(path) = path else { return Ok(None) };
    let name = path.display();
    match BootFile::open(path, memory) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => bail!(
            "{what} {name} does not fit into the machine's memory of {memory} bytes: give it more (--memory)"
        ),
        opened => Ok(Some(
            opened.with_context(|| format!("cannot read {what} {name}"))?,
        )),
    }
}

/// The hint for a host without KVM: how to run the same command in the lab.
fn elsewhere(command: Vec<OsString>) -> String {
    let command: Vec<String> = command.into_iter().map(quoted).collect();
    format!(
        "this needs KVM; `vmbell lab -- vmbell {}` brings its own",
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
        memory: args.memory,
        vcpus: args.vcpus,
        hidden: args.cpu_features,
        pv_eoi: args.pv_eoi == "on",
        shared_memory: args.device.iter().any(Device::shares_memory),
    };
    let pc = Pc::new(hypervisor, config, io::stdout())?;
    let Plugged { nodes, keys } = plug::all(&pc, &args.device)?;
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
    let ending = Ending::begin(args, input)?;
    let stop = pc.run(image, boot, ending.is_due());
    ending.status(stop?)
}

/// The exit status of QEMU when a guest writes `code` to QEMU's device `isa-debug-exit`; it is always
/// odd.
const fn status(code: u32) -> u8 {
    let [low, ..] = code.to_le_bytes();
    low << 1 | 1
}

#[cfg(test)]
#[path = "run_image_test.rs"]
mod tests;
