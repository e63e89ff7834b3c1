//! Adds the devices of the command line to a board.

use std::io::{self, PipeWriter, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};

use super::assign;
use super::console::GuestInput;
use super::device::{DiskFile, RunDevice, TapLink, VirtioDevice};
use vmbell::memory::GuestMemoryMmap;
use vmbell_devices::Output;
use vmbell_devices::virtio::net::{NET_QUEUES, Tap};
use vmbell_devices::virtio::vhost::{Gone, OnGone, VhostNet, VhostUserBlk, VhostVsock};
use vmbell_devices::virtio::{self, CONSOLE_QUEUES, ConsoleReady, Disk, Entropy, Net};
use vmbell_devices::virtio::{Notify, VirtioConfig};
use vmbell_report::units::plural;
use vmbell_vfio::node::DeviceNode;
use vmbell_vmm::Pc;

/// What remains to be done after the devices were added.
#[derive(Default)]
pub(super) struct PluggedParts {
    /// The nodes of platform devices.
    pub(super) nodes: Vec<DeviceNode>,
    /// Where a virtio console's input goes.
    pub(super) keys: Option<ConsoleKeys>,
}

/// The input of a virtio console.
pub(super) struct ConsoleKeys {
    pipe: PipeWriter,
    ready: Arc<ConsoleReady>,
}

impl ConsoleKeys {
    /// Gives the guest bytes to read, once its driver is ready.
    pub(super) fn input(mut self) -> GuestInput {
        Box::new(move |bytes| {
            self.ready.wait();
            // The write fails if the guest is gone, because the pipe then has no reader.
            let _ = self.pipe.write_all(bytes);
        })
    }
}

/// Adds the devices in this order. The drivers of virtio devices notify by `notify`, unless `--device` says otherwise.
pub(super) fn all(
    pc: &Pc,
    devices: &[RunDevice],
    notify: Notify,
    output: &Output,
) -> Result<PluggedParts> {
    let mut plugged = PluggedParts::default();
    for device in devices {
        match device {
            RunDevice::ChrTestdev => bail!(
                "only the arm64 board has chr-testdev: a PC's guest writes its exit code to port 0xf4"
            ),
            RunDevice::PcTestdev => pc.add_pc_testdev()?,
            RunDevice::PciTestdev(config) => pc.add_testdev(*config)?,
            RunDevice::Virtio(device, ways) => {
                let device = plugged.open(device, ways.config(notify), pc.memory(), output)?;
                pc.add_virtio_pci(device)?;
            }
            RunDevice::VirtioMmio(device, ways) => {
                let device = plugged.open(device, ways.config(notify), pc.memory(), output)?;
                pc.add_virtio_mmio(device)?;
            }
            RunDevice::VfioPci(device) => assign::pci(pc, device)?,
            RunDevice::VfioPlatform(device) => plugged.nodes.push(assign::platform(pc, device)?),
        }
    }
    Ok(plugged)
}

impl PluggedParts {
    /// Opens the host's files for a virtio device, for a guest with this memory.
    pub(super) fn open(
        &mut self,
        device: &VirtioDevice,
        config: VirtioConfig,
        memory: &GuestMemoryMmap,
        output: &Output,
    ) -> Result<virtio::VirtioDevice> {
        Ok(match device {
            VirtioDevice::Blk(drive) => virtio::VirtioDevice::new(disk(drive)?, 1, config),
            VirtioDevice::Console => {
                ensure!(
                    self.keys.is_none(),
                    "a guest can have only one virtio-console"
                );
                let (input, pipe) = io::pipe().context("cannot make a pipe")?;
                let console = virtio::Console::new(input.into(), output);
                let console = console.context("cannot create a console from a pipe")?;
                let ready = console.ready();
                self.keys = Some(ConsoleKeys { pipe, ready });
                virtio::VirtioDevice::new(console, CONSOLE_QUEUES, config)
            }
            VirtioDevice::Net(link) => net(link, config, memory)?,
            VirtioDevice::Rng => virtio::VirtioDevice::new(Entropy, 1, config),
            VirtioDevice::UserBlk(socket) => {
                let disk = VhostUserBlk::connect(memory, socket, gone(socket))?;
                virtio::VirtioDevice::with_worker(disk, config)
            }
            VirtioDevice::Vsock(cid) => {
                virtio::VirtioDevice::with_worker(VhostVsock::open(memory, *cid)?, config)
            }
        })
    }
}

/// Tells the user that the guest's disk is gone.
fn gone(socket: &Path) -> OnGone {
    let socket = socket.display().to_string();
    Box::new(move |gone| {
        let why = match gone {
            Gone::HungUp => "has gone",
            Gone::Unanswered => "did not answer requests in time",
        };
        eprintln!("warning: the back end at {socket} {why}: the guest's disk no longer works");
    })
}

fn net(
    link: &TapLink,
    config: VirtioConfig,
    memory: &GuestMemoryMmap,
) -> Result<virtio::VirtioDevice> {
    let TapLink {
        tap,
        mac,
        offloads,
        vhost,
    } = link;
    let tap = Tap::open(tap)?;
    Ok(if *vhost {
        let worker = VhostNet::open(memory, tap, *mac, *offloads)?;
        virtio::VirtioDevice::with_worker(worker, config)
    } else {
        virtio::VirtioDevice::new(Net::new(tap, *mac, *offloads), NET_QUEUES, config)
    })
}

/// Opens the file of a disk.
fn disk(drive: &DiskFile) -> Result<Disk> {
    let DiskFile {
        file,
        readonly,
        is_raw,
        locks,
        serial,
    } = drive;
    let disk = Disk::open(file, *readonly);
    let file = file.display();
    let disk = disk.with_context(|| format!("cannot use {file} as a disk"))?;
    if *locks {
        let locked = disk.lock();
        locked.with_context(|| format!("cannot use {file} as a disk without lock=off"))?;
    }
    if !is_raw && let Some(format) = disk.format() {
        bail!(
            "{file} is an image in the format {format}, whose bytes the guest would see: convert it \
             (`qemu-img convert -O raw`), or say format=raw"
        );
    }
    if disk.rest() > 0 {
        eprintln!(
            "warning: {file} does not end with a whole sector: the guest does not see the last {}",
            plural(disk.rest(), "byte")
        );
    }
    Ok(disk.with_serial(*serial))
}

#[cfg(test)]
#[path = "plug_test.rs"]
mod tests;
