//! Plugs the devices of the command line into a PC.

use std::fs::OpenOptions;
use std::io::{self, PipeWriter, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use super::assign;
use super::device::{Device, Drive, Link, Virtio};
use vmbell::device::virtio::net::{NET_QUEUES, Tap};
use vmbell::device::virtio::pci::VirtioPciConfig;
use vmbell::device::virtio::vhost::{OnGone, VhostNet, VhostUserBlk, VhostVsock};
use vmbell::device::virtio::{self, CONSOLE_QUEUES, ConsoleReady, Disk, Entropy, Net};
use vmbell::hypervisor::Vm;
use vmbell::machine::Pc;
use vmbell::passthrough::node::DeviceNode;

/// What plugging leaves to be done.
#[derive(Default)]
pub(super) struct Plugged {
    /// The nodes of platform devices.
    pub(super) nodes: Vec<DeviceNode>,
    /// Where the input of a virtio console comes in.
    pub(super) keys: Option<Keys>,
}

/// The input of a virtio console.
pub(super) struct Keys {
    pipe: PipeWriter,
    ready: Arc<ConsoleReady>,
}

impl Keys {
    /// Gives the guest these bytes to read, once its driver is ready.
    pub(super) fn give(&mut self, bytes: &[u8]) {
        self.ready.wait();
        // It fails when the guest has gone, and with it who reads.
        let _ = self.pipe.write_all(bytes);
    }
}

/// Plugs them in, in this order.
pub(super) fn all<V: Vm>(pc: &Pc<V>, devices: &[Device]) -> Result<Plugged> {
    let mut plugged = Plugged::default();
    for device in devices {
        match device {
            Device::PcTestdev => pc.add_pc_testdev()?,
            Device::PciTestdev(config) => pc.add_testdev(*config)?,
            Device::Virtio(device, config) => plugged.virtio(pc, device, *config)?,
            Device::VfioPci(device) => assign::pci(pc, device)?,
            Device::VfioPlatform(device) => plugged.nodes.push(assign::platform(pc, device)?),
        }
    }
    Ok(plugged)
}

impl Plugged {
    fn virtio<V: Vm>(
        &mut self,
        pc: &Pc<V>,
        device: &Virtio,
        config: VirtioPciConfig,
    ) -> Result<()> {
        match device {
            Virtio::Blk(drive) => pc.add_virtio(disk(drive)?, 1, config)?,
            Virtio::Console => {
                ensure!(
                    self.keys.is_none(),
                    "a guest has one virtio-console at most"
                );
                let (input, pipe) = io::pipe().context("cannot make a pipe")?;
                let console = virtio::Console::new(input.into(), io::stdout());
                let console = console.context("cannot make a console of a pipe")?;
                let ready = console.ready();
                pc.add_virtio(console, CONSOLE_QUEUES, config)?;
                self.keys = Some(Keys { pipe, ready });
            }
            Virtio::Net(link) => net(pc, link, config)?,
            Virtio::Rng => pc.add_virtio(Entropy, 1, config)?,
            Virtio::UserBlk(socket) => {
                let disk = VhostUserBlk::connect(socket, gone(socket))?;
                pc.add_vhost(disk, config)?;
            }
            Virtio::Vsock(cid) => pc.add_vhost(VhostVsock::open(pc.memory(), *cid)?, config)?,
        }
        Ok(())
    }
}

/// Tells the user that the guest has lost a disk.
fn gone(socket: &Path) -> OnGone {
    let socket = socket.display().to_string();
    Box::new(move || {
        eprintln!(
            "warning: the back end at {socket} has gone, and its disk answers the guest no more"
        );
    })
}

fn net<V: Vm>(pc: &Pc<V>, link: &Link, config: VirtioPciConfig) -> Result<()> {
    let tap = Tap::open(&link.tap)?;
    if link.vhost {
        let net = VhostNet::open(pc.memory(), tap, link.mac, link.offloads)?;
        pc.add_vhost(net, config)?;
    } else {
        let net = Net::new(tap, link.mac, link.offloads);
        pc.add_virtio(net, NET_QUEUES, config)?;
    }
    Ok(())
}

/// Opens the file of a disk.
fn disk(drive: &Drive) -> Result<Disk> {
    let Drive { file, readonly } = drive;
    let opened = OpenOptions::new().read(true).write(!readonly).open(file);
    opened
        .and_then(|file| Disk::new(file, *readonly))
        .with_context(|| format!("cannot use {} as a disk", file.display()))
}
