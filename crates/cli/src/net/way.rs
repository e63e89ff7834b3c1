//! The ways between Linux's network driver in a guest and the tap of the host: a VMM, who serves the queues, and how
//! they notify.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::link::{Card, Link};
use crate::columns::Way;
use crate::program::on_path;
use crate::vmm::{BARE, QEMU};

/// The guest's RAM in MiB.
const MEMORY: &str = "256";
/// The Ethernet address of the guest's interface, a local one.
const MAC: &str = "02:76:6d:62:65:6c";
/// Properties of QEMU's card that would let packets be long, or lack their checksums.
const OFFLOADS: [&str; 11] = [
    "csum",
    "gso",
    "host_tso4",
    "host_tso6",
    "host_ecn",
    "host_ufo",
    "guest_csum",
    "guest_tso4",
    "guest_tso6",
    "guest_ecn",
    "guest_ufo",
];

/// A way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NetWay {
    vmm: Vmm,
    served: Served,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vmm {
    Vmbell,
    Qemu,
}

/// Who serves the queues, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// The vCPU's thread at an exit to the VMM, which interrupts by a call.
    Exit,
    /// A thread of the VMM that an ioeventfd wakes.
    Ioeventfd,
    /// The same, in a guest without paravirtual EOI.
    NoPvEoi,
    /// A worker of the kernel that an ioeventfd wakes, and which interrupts by an irqfd.
    Vhost,
    /// The card itself, which the guest drives, and which interrupts by an irqfd of VFIO.
    Assigned,
}

/// What a guest is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guest<'a> {
    /// The kernel's file, as QEMU and `vmbell run` take it.
    pub(super) kernel: &'a Path,
    /// The file of its first file system.
    pub(super) initrd: &'a Path,
    /// The kernel's parameters, which `vmbell run --append` and QEMU's `-append` take.
    pub(super) cmdline: &'a str,
}

impl NetWay {
    /// All, in the order of the table.
    pub(super) const ALL: [Self; 9] = [
        Self::of(Vmm::Vmbell, Served::Exit),
        Self::NO_PV_EOI,
        Self::PV_EOI,
        Self::of(Vmm::Vmbell, Served::Vhost),
        Self::of(Vmm::Vmbell, Served::Assigned),
        Self::of(Vmm::Qemu, Served::Exit),
        Self::of(Vmm::Qemu, Served::Ioeventfd),
        Self::of(Vmm::Qemu, Served::Vhost),
        Self::of(Vmm::Qemu, Served::Assigned),
    ];

    /// The two that differ by paravirtual EOI alone.
    const NO_PV_EOI: Self = Self::of(Vmm::Vmbell, Served::NoPvEoi);
    const PV_EOI: Self = Self::of(Vmm::Vmbell, Served::Ioeventfd);

    /// The names of these two, the one without first.
    pub(super) const EOIS: [&'static str; 2] = [Self::NO_PV_EOI.title(), Self::PV_EOI.title()];

    /// Whether it is one that is measured only if it is named.
    pub(super) const fn is_special(self) -> bool {
        matches!(self.served, Served::NoPvEoi)
    }

    /// Whether the guest drives a card of the host, so that `--card` has to name one.
    pub(super) const fn is_assigned(self) -> bool {
        matches!(self.served, Served::Assigned)
    }

    const fn of(vmm: Vmm, served: Served) -> Self {
        Self { vmm, served }
    }

    /// The name of its column.
    pub(super) const fn title(self) -> &'static str {
        match (self.vmm, self.served) {
            (Vmm::Vmbell, Served::Exit) => "vmbell-exit",
            (Vmm::Vmbell, Served::Ioeventfd) => "vmbell-ioeventfd",
            (Vmm::Vmbell, Served::NoPvEoi) => "vmbell-no-pv-eoi",
            (Vmm::Vmbell, Served::Vhost) => "vmbell-vhost",
            (Vmm::Vmbell, Served::Assigned) => "vmbell-assigned",
            (Vmm::Qemu, Served::Exit) => "qemu-exit",
            (Vmm::Qemu, Served::Ioeventfd | Served::NoPvEoi) => "qemu-ioeventfd",
            (Vmm::Qemu, Served::Vhost) => "qemu-vhost",
            (Vmm::Qemu, Served::Assigned) => "qemu-assigned",
        }
    }

    /// What it is, in a line.
    pub(super) const fn text(self) -> &'static str {
        match (self.vmm, self.served) {
            (Vmm::Vmbell, Served::Exit) => "vmbell's device, served in an exit of the vCPU",
            (Vmm::Vmbell, Served::Ioeventfd) => "vmbell's device, by ioeventfd and irqfd",
            (Vmm::Vmbell, Served::NoPvEoi) => "the same in a guest without paravirtual EOI",
            (Vmm::Vmbell, Served::Vhost) => "vmbell with vhost-net",
            (Vmm::Vmbell, Served::Assigned) => "vmbell with the card of --card",
            (Vmm::Qemu, Served::Exit) => "QEMU's pc, served in an exit of the vCPU",
            (Vmm::Qemu, Served::Ioeventfd | Served::NoPvEoi) => "QEMU's pc, by ioeventfd",
            (Vmm::Qemu, Served::Vhost) => "QEMU's pc with vhost-net",
            (Vmm::Qemu, Served::Assigned) => "QEMU's pc with the card of --card",
        }
    }

    /// Whether the VMM is QEMU, which need not be installed.
    pub(super) const fn is_qemu(self) -> bool {
        matches!(self.vmm, Vmm::Qemu)
    }

    /// The command line of a boot.
    pub(super) fn words(self, program: &Path, guest: Guest<'_>, link: &Link) -> Vec<OsString> {
        let mut words = vec![program.into()];
        match self.vmm {
            Vmm::Vmbell => self.vmbell(&mut words, guest, link),
            Vmm::Qemu => self.qemu(&mut words, guest, link),
        }
        words
    }

    fn vmbell(self, words: &mut Vec<OsString>, guest: Guest<'_>, link: &Link) {
        words.extend([
            "run".into(),
            guest.kernel.into(),
            "--initrd".into(),
            guest.initrd.into(),
            "--append".into(),
            guest.cmdline.into(),
            "--memory".into(),
            format!("{MEMORY}M").into(),
        ]);
        let device = match link {
            Link::Wire(wire) => format!("vfio-pci,host={}", wire.card()),
            Link::Tap(tap) => {
                let served = match self.served {
                    Served::Exit => ",notify=exit,interrupt=call",
                    Served::Vhost => ",vhost=on",
                    Served::Ioeventfd | Served::NoPvEoi | Served::Assigned => "",
                };
                let tap = tap.name();
                format!("virtio-net,tap={tap},mac={MAC},offload=off{served}")
            }
        };
        words.extend(["--device".into(), device.into()]);
        if self.served == Served::NoPvEoi {
            words.extend(["--pv-eoi", "off"].map(Into::into));
        }
    }

    fn qemu(self, words: &mut Vec<OsString>, guest: Guest<'_>, link: &Link) {
        words.extend(["-M", "pc,accel=kvm", "-cpu", "host", "-m", MEMORY].map(Into::into));
        words.extend(BARE.map(Into::into));
        words.extend(["-kernel".into(), guest.kernel.into()]);
        words.extend(["-initrd".into(), guest.initrd.into()]);
        words.extend(["-append".into(), guest.cmdline.into()]);
        let tap = match link {
            Link::Wire(wire) => {
                let device = format!("vfio-pci,host={}", wire.card());
                words.extend(["-device".into(), device.into()]);
                return;
            }
            Link::Tap(tap) => tap.name(),
        };
        let (vhost, ioeventfd) = match self.served {
            Served::Exit => ("off", "off"),
            Served::Vhost => ("on", "on"),
            Served::Ioeventfd | Served::NoPvEoi | Served::Assigned => ("off", "on"),
        };
        let backend = format!("tap,id=net,ifname={tap},script=no,downscript=no,vhost={vhost}");
        let offloads = OFFLOADS.map(|name| format!(",{name}=off")).concat();
        // The guest needs no boot ROM.
        let card =
            format!("virtio-net-pci,netdev=net,mac={MAC},romfile=,ioeventfd={ioeventfd}{offloads}");
        words.extend(["-netdev", &backend, "-device", &card].map(OsString::from));
    }
}

/// A way with the card of the command line, if there is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) way: NetWay,
    pub(super) card: Option<Card>,
}

impl Way for Candidate {
    fn name(&self) -> &str {
        self.way.title()
    }

    fn program(&self) -> Result<PathBuf, String> {
        let program = match self.way.vmm {
            Vmm::Vmbell => std::env::current_exe()
                .map_err(|error| format!("cannot tell where vmbell itself is: {error}"))?,
            Vmm::Qemu => on_path(QEMU)?,
        };
        if self.way.served == Served::Vhost && !Path::new("/dev/vhost-net").exists() {
            return Err("there is no /dev/vhost-net: `modprobe vhost_net` brings it".to_owned());
        }
        if self.way.is_assigned() && self.card.is_none() {
            return Err("it takes a card: name one with --card and --wire".to_owned());
        }
        Ok(program)
    }

    fn version(&self) -> Option<&'static str> {
        Some("--version")
    }
}
