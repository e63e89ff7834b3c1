//! The arguments of `vmbell sweep`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::vm::VmmOption;
use crate::args::values::positive_duration;
use crate::args::{GUEST, MEASUREMENT, OUTPUT, SUBJECT};
use vmbell_sweep::edit::Edit;
use vmbell_sweep::guest::Wait;
use vmbell_sweep::instant::Shard;
use vmbell_sweep::report::{Device, Event, Window};

/// The most instants of each event.
pub(super) const MAX_INSTANTS: i64 = 1_000_000;

/// The default of `--again`.
pub(super) const AGAIN: u32 = 2;

const EXAMPLES: &str = "\
Examples:
  vmbell lab --deterministic -- vmbell sweep qemu-pc
      sweep the lab's QEMU on real KVM; a repeated run prints the same
  vmbell sweep                               every VMM found, on this host's KVM
  vmbell sweep --vmm cloud-hypervisor=./target/release/cloud-hypervisor \\
      cloud-hypervisor --events restore      your own build of a known VMM
  vmbell sweep my-vmm --vmm my-vmm.toml      any other VMM, described in a file
  vmbell sweep qemu-pc --device rng --instant 17 --seed 3
      repeat one instant's delay, and print its diagnosis
  vmbell sweep qemu-pc --device rng --wait timer --edit forgotten-request
      break each snapshot, to see that the sweep finds it
  vmbell sweep qemu-pc --shard 1/4 --json > 1.json
      a quarter of the instants
  vmbell sweep --merge 1.json 2.json 3.json 4.json

Exit status:
  0    no notification was lost, and each event had something open
  1    a notification was lost, or a VMM failed
  2    the arguments are wrong
  3    inconclusive: in some event nothing was open, or a guest hung for an
       unknown reason
  69   this user may not read the VMMs' memory
  77   no VMM can be swept here
  130  interrupted by SIGINT (143: by SIGTERM); finished instants are shown
";

/// Look for notifications that VMMs lose when they pause, save and restore a guest
///
/// Runs a guest that sends requests to a virtio device, pauses it at many instants of its traffic, looks from outside
/// at what is open in its rings, and resumes it or restores a snapshot of it. The guest notices by itself if an answer or
/// its interrupt does not come, and finds out what revives it: this names the fault. A control group has the same traffic
/// without a pause.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SweepArgs {
    /// Sweep these VMMs: qemu-pc, qemu-q35, qemu-microvm, cloud-hypervisor, firecracker or names of --vmm [default: all
    /// that are found]
    #[arg(value_name = "VMM", conflicts_with = "merge")]
    pub(super) names: Vec<String>,

    /// Use this program for a known VMM, or add the VMM that this TOML file describes (docs/sweep.md)
    #[arg(long, value_name = "NAME=PATH|FILE", help_heading = SUBJECT)]
    pub(super) vmm: Vec<VmmOption>,

    /// Do this to each VM: pause and resume it; restore a snapshot of it; restore a snapshot in two processes; restore
    /// a snapshot and save the restored VM; migrate it live to another process
    #[arg(long, value_enum, value_name = "EVENT,...", value_delimiter = ',', default_values_t = [EventName::Pause, EventName::Restore, EventName::Clones], help_heading = SUBJECT)]
    pub(super) events: Vec<EventName>,

    /// Send requests to these virtio devices
    #[arg(long, value_enum, value_name = "DEVICE,...", value_delimiter = ',', default_values_t = [DeviceName::Blk, DeviceName::Rng], help_heading = GUEST)]
    pub(super) device: Vec<DeviceName>,

    /// Let the guest wait in these ways: read the used index in a loop; halt, and read it at its own timer; halt until
    /// the device interrupts
    #[arg(long, value_enum, value_name = "WAY,...", value_delimiter = ',', default_values_t = [WaitName::Timer, WaitName::Interrupt], help_heading = GUEST)]
    pub(super) wait: Vec<WaitName>,

    /// Negotiate EVENT_IDX or do not
    #[arg(long, value_enum, value_name = "on|off,...", value_delimiter = ',', default_values_t = [Switch::On], help_heading = GUEST)]
    pub(super) event_idx: Vec<Switch>,

    /// Keep N requests in flight; a disk's ring has room for two
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=8), help_heading = GUEST)]
    pub(super) in_flight: u16,

    /// Keep requests open for longer: by the VMM's own rate limiter of one request in 20 ms, or not at all
    #[arg(long, value_enum, value_name = "NAME", default_value_t = WindowName::Limiter, help_heading = GUEST)]
    pub(super) window: WindowName,

    /// Use rings in these formats
    #[arg(long, value_enum, value_name = "FORMAT,...", value_delimiter = ',', default_values_t = [RingName::Split], help_heading = GUEST)]
    pub(super) ring: Vec<RingName>,

    /// Try N instants of each event, with each kind of traffic
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=MAX_INSTANTS), help_heading = MEASUREMENT)]
    pub(super) instants: u32,

    /// Choose the instants by this seed
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = MEASUREMENT)]
    pub(super) seed: u64,

    /// Try only the instant with this number, and print a diagnosis
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..MAX_INSTANTS), conflicts_with_all = ["shard", "instants", "merge"], help_heading = MEASUREMENT)]
    pub(super) instant: Option<u32>,

    /// Try only part I of N of the instants
    #[arg(long, value_name = "I/N", conflicts_with = "merge", help_heading = MEASUREMENT)]
    pub(super) shard: Option<Shard>,

    /// Restore a snapshot whose guest hangs N more times: the VMM is blamed only if each restore hangs
    #[arg(long, value_name = "N", default_value_t = AGAIN, value_parser = clap::value_parser!(u32).range(..=100), help_heading = MEASUREMENT)]
    pub(super) again: u32,

    /// Break each snapshot in this way before it is restored, to see that the sweep finds it
    #[arg(long, value_enum, value_name = "FAULT", help_heading = MEASUREMENT)]
    pub(super) edit: Option<EditName>,

    /// Give a VMM this time to start its guest
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = positive_duration, help_heading = MEASUREMENT)]
    pub(super) start_timeout: Duration,

    /// Merge the reports of all shards, and sweep nothing
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = OUTPUT)]
    pub(super) merge: Vec<PathBuf>,

    /// Print the report as JSON
    #[arg(long, help_heading = OUTPUT)]
    pub(super) json: bool,

    /// Print no progress
    #[arg(short, long, help_heading = OUTPUT)]
    pub(super) quiet: bool,
}

impl SweepArgs {
    /// The programs of this host that the lab has to copy.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &str> {
        self.vmm.iter().filter_map(VmmOption::program)
    }

    /// Whether the user has asked for this VMM.
    pub(super) fn has_named(&self, vmm: &str) -> bool {
        let has_given = |option: &VmmOption| option.names(vmm);
        self.names.iter().any(|name| name == vmm) || self.vmm.iter().any(has_given)
    }

    /// The descriptions of VMMs, which the lab has to copy too.
    pub(crate) fn descriptions(&self) -> impl Iterator<Item = &PathBuf> {
        self.vmm.iter().filter_map(VmmOption::file)
    }
}

macro_rules! names {
    ($(#[$doc:meta])* $name:ident => $of:ty { $($(#[$help:meta])* $variant:ident => $value:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
        pub(super) enum $name { $($(#[$help])* $variant,)* }

        impl From<$name> for $of {
            fn from(name: $name) -> Self {
                match name { $($name::$variant => $value,)* }
            }
        }
    };
}

names! {
    /// A value of `--events`.
    EventName => Event {
        /// Pause and resume
        Pause => Event::Pause,
        /// Snapshot, and restore in another process
        Restore => Event::Restore,
        /// Restore one snapshot in two processes
        Clones => Event::Clones,
        /// Snapshot, and go on with the restored VM
        Chain => Event::Chain,
        /// Live migration to another process
        Migration => Event::Migration,
    }
}

names! {
    /// A value of `--device`.
    DeviceName => Device {
        /// A disk
        Blk => Device::Blk,
        /// An entropy device
        Rng => Device::Rng,
        /// A network card, which sends frames
        Net => Device::Net,
    }
}

names! {
    /// A value of `--wait`.
    WaitName => Wait {
        /// Read the used index in a loop
        Poll => Wait::Poll,
        /// Halt, and read the used index at a timer
        Timer => Wait::Timer,
        /// Halt until the device interrupts
        Interrupt => Wait::Interrupt,
    }
}

names! {
    /// A value of `--event-idx`.
    Switch => bool {
        /// With EVENT_IDX
        On => true,
        /// Without
        Off => false,
    }
}

names! {
    /// A value of `--window`.
    WindowName => Window {
        /// A rate limiter
        Limiter => Window::Limiter,
        /// As the device is
        None => Window::None,
    }
}

names! {
    /// A value of `--edit`.
    EditName => Edit {
        /// The device's event index is older than its position
        StaleEventIndex => Edit::StaleEventIndex,
        /// The last request is no longer in the ring
        ForgottenRequest => Edit::ForgottenRequest,
        /// An answer is there before the device has done anything (packed ring)
        RepeatedAnswer => Edit::RepeatedAnswer,
        /// The device's event index is that of another lap (packed ring)
        ForgottenWrapCounter => Edit::ForgottenWrapCounter,
    }
}

/// A value of `--ring`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RingName {
    /// The split virtqueue
    Split,
    /// The packed virtqueue
    Packed,
}
