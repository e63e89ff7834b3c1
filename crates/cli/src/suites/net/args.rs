//! The arguments of `vmbell bench net`.

use std::path::PathBuf;

use clap::Args;

use super::interface::InterfaceName;
use super::link::AssignedCard;
use super::pattern::NetperfPattern;
use super::way::NetWay;
use crate::args::values;
use crate::args::{GUEST, MEASUREMENT, SUBJECT};
use crate::suites::boots::args::ColumnArgs;
use vmbell_vfio::host::PciAddress;

const EXAMPLES: &str = "\
Examples:
  vmbell list net                 show ways and patterns, and what is missing
  vmbell bench net                measure round trips in every available way
  vmbell lab -- vmbell bench net  count instructions, without /dev/kvm
  vmbell bench net vmbell-ioeventfd qemu-ioeventfd --pattern rr,in-bulk,out-bulk
      compare two ways, with streams in both directions
  vmbell bench net --card 0000:03:00.0 --wire eth1 --driver igb
      add a network card whose wire leads to eth1
  vmbell bench net --kernel vmlinuz --modules lib/modules/6.12.0 \\
      --busybox ./busybox
      use another kernel and user space

Exit status:
  0    every way gave results
  1    a way failed, or a file could not be written
  2    the arguments are wrong
  77   nothing can be measured here
  124  the time limit (--timeout) expired; finished results are written
  130  interrupted by SIGINT (143: by SIGTERM); finished results are written
";

/// Measure Linux's network driver in a guest with netperf: device model, ioeventfd, vhost-net, assigned card
///
/// Boots a Linux guest for each WAY (a VMM and a path of notification and interrupt), in turns. Its network is a tap of
/// this host. netperf on the host drives netserver in the guest. This needs root, for the tap and for KVM's events,
/// which are counted in a second run of each pattern. Offloads are off, so each packet is one Ethernet frame.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NetSuiteArgs {
    /// Measure these ways: names of `vmbell list net` [default: all whose programs are found]
    #[arg(value_enum, value_name = "WAY")]
    pub(super) ways: Vec<NetWay>,

    /// Run these patterns of netperf: rr (request and response of one byte), in-default, in-file, in-bulk (streams into
    /// the guest), out-default, out-file, out-bulk (streams out of the guest), or all
    #[arg(long, value_name = "PATTERN,...", value_delimiter = ',', default_value = "rr", value_parser = super::pattern::parse, help_heading = SUBJECT)]
    pub(super) pattern: Vec<Vec<NetperfPattern>>,

    /// Boot this kernel in the guest [default: /boot/vmlinuz-RELEASE of the running one]
    #[arg(long, value_name = "FILE", help_heading = GUEST)]
    pub(super) kernel: Option<PathBuf>,

    /// Take the kernel's modules from this folder [default: /lib/modules/RELEASE of the running one]
    #[arg(long, value_name = "FOLDER", help_heading = GUEST)]
    pub(super) modules: Option<PathBuf>,

    /// Use this static busybox as the guest's user space [default: the one on PATH]
    #[arg(long, value_name = "FILE", help_heading = GUEST)]
    pub(super) busybox: Option<PathBuf>,

    /// Run this netperf (2.7) on the host [default: the one on PATH]
    #[arg(long, value_name = "FILE", help_heading = MEASUREMENT)]
    pub(super) netperf: Option<PathBuf>,

    /// Run this netserver, of the same version, in the guest [default: the one on PATH]
    #[arg(long, value_name = "FILE", help_heading = GUEST)]
    pub(super) netserver: Option<PathBuf>,

    /// Assign this network card to the guest, by its PCI address, such as 0000:00:07.0; it must be bound to VFIO's
    /// driver (docs/passthrough.md), and its wire must lead to an interface of this host (--wire)
    #[arg(long, value_name = "ADDRESS", requires = "wire", help_heading = GUEST)]
    pub(super) card: Option<PciAddress>,

    /// Use this interface of the host, which is at the other end of the card's wire; it must have no IP address
    #[arg(long, value_name = "INTERFACE", requires = "card", value_parser = wire, help_heading = GUEST)]
    pub(super) wire: Option<InterfaceName>,

    /// Load this module in the guest as the card's driver
    #[arg(
        long,
        value_name = "MODULE",
        default_value = "virtio_net",
        requires = "card", help_heading = GUEST
    )]
    pub(super) driver: String,

    /// Add these words to the kernel's command line
    #[arg(
        long,
        value_name = "WORDS",
        default_value = "",
        allow_hyphen_values = true, help_heading = GUEST
    )]
    pub(super) append: String,

    /// Run N round trips
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=100_000_000), help_heading = MEASUREMENT)]
    pub(super) transactions: u32,

    /// Transfer this number of bytes in a stream, such as 2M
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = bytes, help_heading = MEASUREMENT)]
    pub(super) bytes: u64,

    #[command(flatten)]
    pub(super) columns: ColumnArgs,
}

impl NetSuiteArgs {
    /// Whether a card is needed. It is also needed if no path is named.
    pub(crate) fn wants_card(&self) -> bool {
        self.ways.is_empty() || self.ways.iter().any(|way| way.is_assigned())
    }

    /// Words to add to the kernel's command line.
    pub(crate) fn append(&self) -> &str {
        &self.append
    }

    /// The card to assign.
    pub(super) fn card(&self) -> Option<AssignedCard> {
        let (address, wire) = self.card.zip(self.wire)?;
        Some(AssignedCard { address, wire })
    }

    /// The patterns, each once, in the order of the command line.
    pub(super) fn patterns(&self) -> Vec<NetperfPattern> {
        let mut patterns = Vec::new();
        for pattern in self.pattern.iter().flatten() {
            if !patterns.contains(pattern) {
                patterns.push(*pattern);
            }
        }
        patterns
    }
}

fn wire(text: &str) -> Result<InterfaceName, String> {
    InterfaceName::new(text).ok_or_else(|| "no interface has such a name".to_owned())
}

/// netperf takes a number of bytes below 2^31.
fn bytes(text: &str) -> Result<u64, String> {
    match values::size(text)? {
        0 => Err("must be at least 1".to_owned()),
        size if size >= 1 << 31 => Err("must be below 2G".to_owned()),
        size => Ok(size),
    }
}
