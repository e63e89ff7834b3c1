//! The paths between Linux's network driver in a guest and the host's tap: a VMM, what serves the queues, and how both
//! sides notify.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::link::{AssignedCard, HostLink};
use crate::args::values::value;
use crate::process::program::{on_path, own};
use crate::suites::boots::BootWay;
use crate::suites::vmms::{BARE, QEMU};

/// The guest's RAM in MiB.
const MEMORY: &str = "256";
/// The Ethernet address of the guest's interface, a local one.
const MAC: &str = "02:76:6d:62:65:6c";
/// Properties that switch off long packets and missing checksums in QEMU's card.
const OFFLOADS: &str = ",csum=off,gso=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off,\
    guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off";

/// A VMM, what serves the queues, and how both sides notify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum NetWay {
    /// vmbell's device, served in an exit of the vCPU
    VmbellExit,
    /// vmbell's device, by ioeventfd and irqfd, in a guest without paravirtual EOI
    VmbellNoPvEoi,
    /// vmbell's device, by ioeventfd and irqfd
    VmbellIoeventfd,
    /// vmbell's device, with --nested-guest
    VmbellNested,
    /// vmbell's device, with --machine micro
    VmbellMicro,
    /// vmbell with vhost-net and --machine micro
    VmbellMicroVhost,
    /// vmbell with vhost-net
    VmbellVhost,
    /// vmbell with the card of --card
    VmbellAssigned,
    /// QEMU's pc, served in an exit of the vCPU
    QemuExit,
    /// QEMU's pc, by ioeventfd
    QemuIoeventfd,
    /// QEMU's pc with vhost-net
    QemuVhost,
    /// QEMU's pc with the card of --card
    QemuAssigned,
}

/// The files and parameters of a guest.
#[derive(Clone, Copy, Debug)]
pub(super) struct NetGuest<'a> {
    /// The kernel's file, as both QEMU and `vmbell run` take it.
    pub(super) kernel: &'a Path,
    /// The initrd.
    pub(super) initrd: &'a Path,
    /// The kernel's parameters, for `vmbell run --append` and QEMU's `-append`.
    pub(super) cmdline: &'a str,
}

impl NetWay {
    /// The column's name.
    pub(super) fn title(self) -> String {
        value(&self).get_name().to_owned()
    }

    /// Whether this way is measured only if the user names it.
    pub(super) const fn is_special(self) -> bool {
        matches!(
            self,
            Self::VmbellNoPvEoi | Self::VmbellNested | Self::VmbellMicro | Self::VmbellMicroVhost
        )
    }

    /// Whether the guest drives a card of the host, which `--card` must name.
    pub(super) const fn is_assigned(self) -> bool {
        matches!(self, Self::VmbellAssigned | Self::QemuAssigned)
    }

    /// Whether a kernel thread serves the queues.
    const fn is_vhost(self) -> bool {
        matches!(
            self,
            Self::VmbellVhost | Self::VmbellMicroVhost | Self::QemuVhost
        )
    }

    /// Whether the VMM is QEMU, which may be missing.
    pub(super) const fn is_qemu(self) -> bool {
        use NetWay::{QemuAssigned, QemuExit, QemuIoeventfd, QemuVhost};
        matches!(self, QemuExit | QemuIoeventfd | QemuVhost | QemuAssigned)
    }

    /// The command line of a boot.
    pub(super) fn words(
        self,
        program: &Path,
        guest: NetGuest<'_>,
        link: &HostLink,
    ) -> Vec<OsString> {
        let mut words = vec![program.into()];
        match self.is_qemu() {
            false => self.vmbell(&mut words, guest, link),
            true => self.qemu(&mut words, guest, link),
        }
        words
    }

    fn vmbell(self, words: &mut Vec<OsString>, guest: NetGuest<'_>, link: &HostLink) {
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
            HostLink::Wire(wire) => format!("vfio-pci,host={}", wire.card()),
            HostLink::Tap(tap) => {
                let served = match self {
                    Self::VmbellExit => ",notify=exit,interrupt=call",
                    _ if self.is_vhost() => ",vhost=on",
                    _ => "",
                };
                let tap = tap.name();
                format!("virtio-net,tap={tap},mac={MAC},offload=off{served}")
            }
        };
        words.extend(["--device".into(), device.into()]);
        match self {
            Self::VmbellNoPvEoi => words.extend(["--pv-eoi", "off"].map(Into::into)),
            Self::VmbellNested => words.push("--nested-guest".into()),
            Self::VmbellMicro | Self::VmbellMicroVhost => {
                words.extend(["--machine", "micro"].map(Into::into));
            }
            _ => {}
        }
    }

    fn qemu(self, words: &mut Vec<OsString>, guest: NetGuest<'_>, link: &HostLink) {
        words.extend(["-M", "pc,accel=kvm", "-cpu", "host", "-m", MEMORY].map(Into::into));
        words.extend(BARE.split_whitespace().map(Into::into));
        words.extend(["-kernel".into(), guest.kernel.into()]);
        words.extend(["-initrd".into(), guest.initrd.into()]);
        words.extend(["-append".into(), guest.cmdline.into()]);
        let tap = match link {
            HostLink::Wire(wire) => {
                let device = format!("vfio-pci,host={}", wire.card());
                words.extend(["-device".into(), device.into()]);
                return;
            }
            HostLink::Tap(tap) => tap.name(),
        };
        let (vhost, ioeventfd) = match self {
            Self::QemuExit => ("off", "off"),
            Self::QemuVhost => ("on", "on"),
            _ => ("off", "on"),
        };
        let backend = format!("tap,id=net,ifname={tap},script=no,downscript=no,vhost={vhost}");
        // The guest needs no boot ROM.
        let card =
            format!("virtio-net-pci,netdev=net,mac={MAC},romfile=,ioeventfd={ioeventfd}{OFFLOADS}");
        words.extend(["-netdev", &backend, "-device", &card].map(OsString::from));
    }
}

/// A path with its name, and the card of the command line, if any.
#[derive(Clone, Debug)]
pub(super) struct NetCandidate {
    pub(super) way: NetWay,
    title: String,
    card: Option<AssignedCard>,
}

impl NetCandidate {
    pub(super) fn new(way: NetWay, card: Option<AssignedCard>) -> Self {
        let title = way.title();
        Self { way, title, card }
    }
}

impl BootWay for NetCandidate {
    fn name(&self) -> &str {
        &self.title
    }

    fn program(&self) -> Result<PathBuf, String> {
        let program = match self.way.is_qemu() {
            true => on_path(QEMU)?,
            false => own()?,
        };
        if self.way.is_vhost() && !Path::new("/dev/vhost-net").exists() {
            return Err("there is no /dev/vhost-net: load it with `modprobe vhost_net`".to_owned());
        }
        if self.way.is_assigned() && self.card.is_none() {
            return Err("it needs a network card: --card and --wire".to_owned());
        }
        Ok(program)
    }

    fn version(&self) -> Option<&'static str> {
        Some("--version")
    }
}
