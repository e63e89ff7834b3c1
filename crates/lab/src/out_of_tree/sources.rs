//! The sources of the build: our own, which are embedded in this program, and the kernel's.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use lzma_rust2::XzReader;

use super::super::cache::hash_bytes;
use crate::error::{LabError, cannot, failed};
use crate::own_sources::{OwnSources, own_sources};

const OWN: OwnSources = own_sources!(
    "vfio-forward":
    "Kbuild",
    "device.c",
    "internal.h",
    "line.c",
    "main.c",
    "symbols.c",
    "vfio_forward.h",
    "vfio_platform_pl031_reset.c",
    "vgic.c",
);

/// Files of the kernel's source, relative to `drivers`.
const VFIO: &[&str] = &[
    "vfio/vfio.h",
    "vfio/platform/vfio_amba.c",
    "vfio/platform/vfio_platform.c",
    "vfio/platform/vfio_platform_common.c",
    "vfio/platform/vfio_platform_irq.c",
    "vfio/platform/vfio_platform_private.h",
];

/// Returns the SHA-256 of what the modules are built from, not including the kernel's files.
pub fn digest() -> String {
    hash_bytes(format!("{:?}\n{VFIO:?}", OWN.0).as_bytes())
}

/// Writes our own sources.
pub(super) fn write_own(folder: &Path) -> Result<(), LabError> {
    let platform = folder.join("vfio/platform");
    fs::create_dir_all(&platform).map_err(cannot("make", platform))?;
    OWN.write(folder)
}

/// Copies the kernel's files out of its source archive, and stops reading after the last of these files.
pub(super) fn take_vfio(archive: &Path, folder: &Path) -> Result<(), LabError> {
    let mut left = VFIO.to_vec();
    read(archive, |path, item| {
        let wanted = left
            .iter()
            .position(|name| path == Path::new("drivers").join(name));
        if let Some(index) = wanted {
            let to = folder.join(left.swap_remove(index));
            item.unpack(&to).map_err(cannot("write", to))?;
        }
        Ok(!left.is_empty())
    })?;
    match left.first() {
        None => Ok(()),
        Some(file) => Err(failed!("{} has no {file}", archive.display())),
    }
}

/// Copies files and symbolic links out of a kernel's source archive, if `place` returns a path for them.
pub(crate) fn take(
    archive: &Path,
    place: impl Fn(&Path) -> Option<PathBuf>,
) -> Result<(), LabError> {
    read(archive, |path, item| {
        let kind = item.header().entry_type();
        if (kind.is_file() || kind.is_symlink())
            && let Some(to) = place(path)
        {
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder).map_err(cannot("make", folder))?;
            }
            item.unpack(&to).map_err(cannot("write", to))?;
        }
        Ok(true)
    })
}

/// Passes the files of the archive to `file`, with their paths in the source, until it returns `false`.
fn read(
    archive: &Path,
    mut file: impl FnMut(&Path, &mut ArchiveItem<'_>) -> Result<bool, LabError>,
) -> Result<(), LabError> {
    let failed = || cannot("read", archive);
    let input = BufReader::with_capacity(1 << 20, fs::File::open(archive).map_err(failed())?);
    let mut tar = tar::Archive::new(XzReader::new(input, true));
    for item in tar.entries().map_err(failed())? {
        let mut item = item.map_err(failed())?;
        let path = item.path().map_err(failed())?.into_owned();
        // The first folder is the source's own, such as `linux-source-6.12`.
        let path: PathBuf = path.components().skip(1).collect();
        if !file(&path, &mut item)? {
            break;
        }
    }
    Ok(())
}

/// A file in an archive.
type ArchiveItem<'a> = tar::Entry<'a, XzReader<BufReader<fs::File>>>;

/// Copies a built module to the folder `target`.
pub(super) fn copy_module(folder: &Path, target: &Path, name: &str) -> Result<PathBuf, LabError> {
    let file = format!("{name}.ko");
    let (from, to) = (folder.join(&file), target.join(file));
    fs::copy(&from, &to).map_err(cannot("copy", from))?;
    Ok(to)
}
