//! Parses the properties of virtio devices.

use std::path::PathBuf;

use super::{Device, on_or_off, properties};
use vmbell_devices::virtio::net::{Mac, MacError, Offloads};
use vmbell_devices::virtio::vhost::{Cid, CidError};
use vmbell_devices::virtio::{Notify, Raise, VirtioConfig};

pub(super) const RNG: &str = "virtio-rng";
pub(super) const BLK: &str = "virtio-blk";
pub(super) const CONSOLE: &str = "virtio-console";
pub(super) const NET: &str = "virtio-net";
pub(super) const USER_BLK: &str = "vhost-user-blk";
pub(super) const VSOCK: &str = "virtio-vsock";

/// A virtio device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::run_image) enum Virtio {
    /// A disk.
    Blk(Drive),
    /// A console on standard input and output.
    Console,
    /// A network interface.
    Net(Link),
    /// Random bytes.
    Rng,
    /// A disk of another process's, behind a socket.
    UserBlk(PathBuf),
    /// Sockets between programs of the guest and of the host.
    Vsock(Cid),
}

/// What a disk is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::run_image) struct Drive {
    /// A file or a block device.
    pub(in crate::run_image) file: PathBuf,
    /// Whether the guest may only read.
    pub(in crate::run_image) readonly: bool,
}

/// The two ends of a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::run_image) struct Link {
    /// The name of the tap, which is an interface of the host.
    pub(in crate::run_image) tap: String,
    /// The Ethernet address of the guest's interface.
    pub(in crate::run_image) mac: Mac,
    /// Whether packets may be long, and lack their checksums.
    pub(in crate::run_image) offloads: Offloads,
    /// Whether the kernel moves the packets.
    pub(in crate::run_image) vhost: bool,
}

pub(super) fn blk<'t>(parts: impl Iterator<Item = &'t str>) -> Result<Device, String> {
    let (mut file, mut readonly) = (None, false);
    let ways = with_ways(BLK, &["file", "readonly"], parts, |property, value| {
        match property {
            "file" => file = Some(value.into()),
            _ => readonly = on_or_off(value)?,
        }
        Ok(())
    })?;
    let file = file.ok_or("virtio-blk needs a file, for example file=disk.img")?;
    Ok(ways.of(Virtio::Blk(Drive { file, readonly })))
}

pub(super) fn console<'t>(parts: impl Iterator<Item = &'t str>) -> Result<Device, String> {
    let ways = with_ways(CONSOLE, &[], parts, |_, _| Ok(()))?;
    Ok(ways.of(Virtio::Console))
}

pub(super) fn net<'t>(parts: impl Iterator<Item = &'t str>) -> Result<Device, String> {
    let (mut tap, mut mac) = (None, None);
    let (mut offloads, mut vhost) = (Offloads::On, false);
    let own = ["tap", "mac", "offload", "vhost"];
    let ways = with_ways(NET, &own, parts, |property, value| {
        match property {
            "tap" => tap = Some(value.to_owned()),
            "mac" => mac = Some(value.parse().map_err(|error: MacError| error.to_string())?),
            "offload" if on_or_off(value)? => offloads = Offloads::On,
            "offload" => offloads = Offloads::Off,
            _ => vhost = on_or_off(value)?,
        }
        Ok(())
    })?;
    if vhost && ways.config.packed {
        return Err("the kernel's vhost-net knows no packed rings: vhost or packed".to_owned());
    }
    let tap = tap.ok_or("virtio-net needs an interface of the host, for example tap=tap0")?;
    let link = Link {
        mac: mac.unwrap_or_else(|| Mac::of(&tap)),
        tap,
        offloads,
        vhost,
    };
    Ok(ways.of(Virtio::Net(link)))
}

pub(super) fn rng<'t>(parts: impl Iterator<Item = &'t str>) -> Result<Device, String> {
    let ways = with_ways(RNG, &[], parts, |_, _| Ok(()))?;
    Ok(ways.of(Virtio::Rng))
}

pub(super) fn user_blk<'t>(parts: impl Iterator<Item = &'t str>) -> Result<Device, String> {
    let mut socket = None;
    let ways = with_ways(USER_BLK, &["socket"], parts, |_, value| {
        socket = Some(value.into());
        Ok(())
    })?;
    if ways.config.packed {
        return Err("a back end of vhost-user gets no packed rings here".to_owned());
    }
    let socket = socket.ok_or("vhost-user-blk needs a back end, for example socket=/run/disk")?;
    Ok(ways.of(Virtio::UserBlk(socket)))
}

pub(super) fn vsock<'t>(parts: impl Iterator<Item = &'t str>) -> Result<Device, String> {
    let mut cid = None;
    let ways = with_ways(VSOCK, &["cid"], parts, |_, value| {
        cid = Some(value.parse().map_err(|error: CidError| error.to_string())?);
        Ok(())
    })?;
    if ways.config.packed {
        return Err("the kernel's vhost-vsock knows no packed rings".to_owned());
    }
    let cid = cid.ok_or("virtio-vsock needs the guest's context ID, for example cid=3")?;
    Ok(ways.of(Virtio::Vsock(cid)))
}

/// The properties that every virtio device has.
const WAYS: [&str; 4] = ["notify", "interrupt", "packed", "transport"];

/// How a virtio device is seen and served.
#[derive(Default)]
struct Ways {
    mmio: bool,
    config: VirtioConfig,
}

impl Ways {
    fn of(self, device: Virtio) -> Device {
        if self.mmio {
            Device::VirtioMmio(device, self.config)
        } else {
            Device::Virtio(device, self.config)
        }
    }
}

/// Reads these properties, and calls `set` with a device's own ones.
fn with_ways<'t>(
    device: &str,
    own: &[&str],
    parts: impl Iterator<Item = &'t str>,
    mut set: impl FnMut(&str, &'t str) -> Result<(), String>,
) -> Result<Ways, String> {
    let mut ways = Ways::default();
    let config = &mut ways.config;
    let known = [own, &WAYS].concat();
    properties(device, &known, parts, |property, value| {
        match (property, value) {
            ("notify", "ioeventfd") => config.notify = Notify::Doorbell,
            ("notify", "exit") => config.notify = Notify::Exit,
            ("notify", _) => return Err("'ioeventfd' or 'exit' is wanted".to_owned()),
            ("interrupt", "irqfd") => config.raise = Raise::Irqfd,
            ("interrupt", "call") => config.raise = Raise::Call,
            ("interrupt", _) => return Err("'irqfd' or 'call' is wanted".to_owned()),
            ("transport", "pci") => ways.mmio = false,
            ("transport", "mmio") => ways.mmio = true,
            ("transport", _) => return Err("'pci' or 'mmio' is wanted".to_owned()),
            ("packed", _) => config.packed = on_or_off(value)?,
            _ => set(property, value)?,
        }
        Ok(())
    })?;
    Ok(ways)
}

#[cfg(test)]
#[path = "virtio_test.rs"]
mod tests;
