//! The arguments of `vmbell bench net`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::interface::Name;
use super::link::Card;
use super::pattern::Pattern;
use super::way::NetWay;
use crate::columns::args::{ColumnArgs, CountExits};
use crate::values;
use vmbell_vfio::host::PciAddress;

const EXAMPLES: &str = "\
Examples:
  vmbell list net                         show the columns and patterns, and what is missing
  vmbell bench net                        measure round trips in every way that is possible here
  vmbell bench net vmbell-ioeventfd qemu-ioeventfd --pattern rr,in-bulk,out-bulk
                                          compare two, with streams in both directions
  vmbell bench net --card 0000:03:00.0 --wire eth1 --driver igb
                                          add a network card, whose cable leads to eth1 of the host
  vmbell bench net --kernel vmlinuz --modules lib/modules/6.12.0 --busybox ./busybox
                                          use another kernel and user space
  vmbell lab --deterministic -- vmbell bench net
                                          count instructions where there is no /dev/kvm

Exit codes:
  0    every way gave results
  1    a way failed, or a file could not be written
  2    the arguments are wrong
  77   nothing can be measured here
  130  interrupted by SIGINT (143: by SIGTERM); finished results have been written
";

/// Measure Linux's own network driver in a guest, by each way of notification and interrupt, with the real netperf
///
/// For each way a guest with Linux starts, whose network is a tap of this host, and netperf on the host drives
/// netserver in the guest. This takes root: for the tap, and for the kernel's events, which are counted in a second
/// run of each pattern. The ways take turns. Packets are whole: offloads are off.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NetArgs {
    /// The ways: names of --list; without any, all whose programs are found
    #[arg(value_name = "WAY", value_parser = way())]
    pub(super) ways: Vec<NetWay>,

    /// Say which ways and patterns there are, and start none
    #[arg(short, long, hide = true)]
    pub(super) list: bool,

    /// What netperf does: rr (request and response of one byte), in-default, in-file, in-bulk, out-default, out-file,
    /// out-bulk (streams into the guest and out of it), or all
    #[arg(long, value_name = "PATTERN,...", value_delimiter = ',', default_value = "rr", value_parser = super::pattern::parse)]
    pub(super) pattern: Vec<Vec<Pattern>>,

    /// The guest's kernel [default: /boot/vmlinuz-RELEASE of the running one]
    #[arg(long, value_name = "FILE")]
    pub(super) kernel: Option<PathBuf>,

    /// The folder of the kernel's modules [default: /lib/modules/RELEASE of the running one]
    #[arg(long, value_name = "FOLDER")]
    pub(super) modules: Option<PathBuf>,

    /// A static busybox, the guest's user space [default: the one on PATH]
    #[arg(long, value_name = "FILE")]
    pub(super) busybox: Option<PathBuf>,

    /// netperf 2.7, for the host [default: the one on PATH]
    #[arg(long, value_name = "FILE")]
    pub(super) netperf: Option<PathBuf>,

    /// netserver of the same version, for the guest [default: the one on PATH]
    #[arg(long, value_name = "FILE")]
    pub(super) netserver: Option<PathBuf>,

    /// The network card to assign to the guest, as lspci names it, such as 0000:00:07.0: it is bound to VFIO's driver
    /// (see docs/passthrough.md), and its wire leads to an interface of this host, --wire
    #[arg(long, value_name = "ADDRESS", requires = "wire")]
    pub(super) card: Option<PciAddress>,

    /// The interface of this host at the other end of the card's wire; it must have no address
    #[arg(long, value_name = "INTERFACE", requires = "card", value_parser = wire)]
    pub(super) wire: Option<Name>,

    /// The kernel's module that drives the card in the guest
    #[arg(
        long,
        value_name = "MODULE",
        default_value = "virtio_net",
        requires = "card"
    )]
    pub(super) driver: String,

    /// Words to add to the kernel's command line
    #[arg(
        long,
        value_name = "WORDS",
        default_value = "",
        allow_hyphen_values = true
    )]
    pub(super) append: String,

    /// Round trips of a run
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(super) transactions: u32,

    /// Bytes of a run of a stream, e.g. 2M
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = bytes)]
    pub(super) bytes: u64,

    /// Count exits, notifications and interrupts, in one further run of each pattern
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = CountExits::Auto)]
    pub(super) exits: CountExits,

    /// Give a boot or a run of netperf up after this time, and go on with the other ways
    #[arg(long = "run-timeout", alias = "time-limit", value_name = "TIME", default_value = "1m", value_parser = values::positive_duration)]
    pub(super) time_limit: Duration,

    #[command(flatten)]
    pub(super) columns: ColumnArgs,
}

impl NetArgs {
    /// The names of the ways that were given.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.ways.iter().map(|way| way.title()).collect()
    }

    /// The words to add to the kernel's command line.
    pub(crate) fn append(&self) -> &str {
        &self.append
    }

    /// The card to assign.
    pub(super) fn card(&self) -> Option<Card> {
        let (address, wire) = self.card.zip(self.wire)?;
        Some(Card { address, wire })
    }

    /// The patterns, each once, in the order of the command line.
    pub(super) fn patterns(&self) -> Vec<Pattern> {
        let mut patterns = Vec::new();
        for pattern in self.pattern.iter().flatten() {
            if !patterns.contains(pattern) {
                patterns.push(*pattern);
            }
        }
        patterns
    }
}

fn way() -> impl clap::builder::TypedValueParser<Value = NetWay> {
    use clap::builder::TypedValueParser;
    clap::builder::PossibleValuesParser::new(NetWay::ALL.map(NetWay::title)).try_map(|name| {
        let mut all = NetWay::ALL.into_iter();
        all.find(|way| way.title() == name).ok_or("no such way")
    })
}

fn wire(text: &str) -> Result<Name, String> {
    Name::new(text).ok_or_else(|| "no interface has such a name".to_owned())
}

/// netperf takes a number of bytes below 2^31.
fn bytes(text: &str) -> Result<u64, String> {
    match values::size(text)? {
        0 => Err("must be at least 1".to_owned()),
        size if size >= 1 << 31 => Err("must be below 2G".to_owned()),
        size => Ok(size),
    }
}
