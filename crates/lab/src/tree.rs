//! Makes the device tree of a machine with a device that QEMU does not put behind the IOMMU by itself.
//!
//! QEMU writes the tree that it would give L1, the lab adds what is missing, and QEMU uses the result instead of its
//! own tree. The tree depends only on QEMU and its arguments, so it is kept in the cache.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use super::board::LabBoard;
use super::boot::{Settings, machine_arguments};
use super::cache::EntryDraft;
use super::device::Master;
use super::device_tree::DeviceTree;
use super::qemu::Qemu;
use crate::error::{LabError, cannot, failed};

/// The file in the cache entry.
pub const TREE: &str = "machine.dtb";
/// Part of the entries' names. Increase it when the edit changes.
const REVISION: u32 = 1;

/// Returns all inputs that a tree depends on, as one text.
pub fn recipe(qemu: &Qemu, board: &LabBoard, settings: &Settings) -> String {
    let words = machine_arguments(board, settings, "");
    let masters: Vec<&Master> = masters(settings).collect();
    format!(
        "revision {REVISION}\n{:?} {}\n{words:?}\n{masters:?}",
        qemu.words(),
        qemu.version()
    )
}

/// Returns the devices whose nodes are edited.
pub fn masters(settings: &Settings) -> impl Iterator<Item = &'static Master> {
    let devices = settings.devices.iter().map(|plugged| plugged.device);
    devices.filter_map(|device| device.master.as_ref())
}

/// Finishes an entry; returns its title.
pub fn make(
    qemu: &Qemu,
    board: &LabBoard,
    settings: &Settings,
    draft: &EntryDraft,
) -> Result<String, LabError> {
    let path = draft.path(TREE);
    let option = format!(",dumpdtb={}", path.display());
    dump(qemu, &machine_arguments(board, settings, &option))?;
    let blob = std::fs::read(&path).map_err(cannot("read", &path))?;
    let mut tree = DeviceTree::parse(&blob)?;
    for master in masters(settings) {
        let phandle = tree.phandle(master.iommu)?;
        let iommus = [phandle, master.stream].map(u32::to_be_bytes).concat();
        tree.add(master.node, "iommus", &iommus)?;
        tree.add(master.node, "dma-coherent", &[])?;
    }
    write(&path, &tree.to_bytes())?;
    Ok(format!("device tree for {}", board.arch.name))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    std::fs::write(path, bytes).map_err(cannot("write", path))
}

/// Runs QEMU, which writes its tree and exits.
fn dump(qemu: &Qemu, arguments: &[OsString]) -> Result<(), LabError> {
    let words = qemu.words();
    let output = Command::new(&words[0])
        .args(&words[1..])
        .args(arguments)
        .args(["-nodefaults", "-no-user-config", "-display", "none"])
        .envs(qemu.environment())
        .stdin(Stdio::null())
        .output()
        .map_err(cannot("run", &words[0]))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let (said, status) = (said.trim(), output.status);
    Err(failed!(
        "QEMU does not write its device tree ({status}): {said}"
    ))
}
