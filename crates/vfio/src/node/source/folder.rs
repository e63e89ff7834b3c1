//! The host's own tree, as the kernel shows it: a folder for each node and a file for each property
//! (`Documentation/ABI/testing/sysfs-firmware-ofw`).

use std::fs::{self, DirEntry, File};
use std::io::{self, Read};
use std::path::Path;

use super::error::SourceError;
use super::tree::{LARGEST, SourceNode, Tree, check_depth, join};

impl Tree {
    /// Where the kernel shows the host's tree. `/proc/device-tree` is a link to it.
    pub const HOST: &'static str = "/sys/firmware/devicetree/base";

    /// Reads a tree of folders, such as [`Tree::HOST`].
    ///
    /// # Errors
    /// The folder cannot be read, or the tree is too large.
    pub fn from_folder(path: &Path) -> Result<Self, SourceError> {
        let mut tree = Self::default();
        add(&mut tree, path, "/".to_owned())?;
        Ok(tree)
    }
}

fn add(tree: &mut Tree, folder: &Path, path: String) -> Result<(), SourceError> {
    check_depth(&path)?;
    let failed = |source| SourceError::Folder {
        path: folder.to_owned(),
        source,
    };
    let entries: io::Result<Vec<DirEntry>> = fs::read_dir(folder).map_err(failed)?.collect();
    let mut entries = entries.map_err(failed)?;
    entries.sort_by_key(DirEntry::file_name);
    let mut node = SourceNode {
        path: path.clone(),
        properties: Vec::new(),
    };
    let mut children = Vec::new();
    for entry in entries {
        // The kernel's names are ASCII. It has links nowhere in the tree, and nothing that would have to be waited for.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            children.push((entry.path(), name));
        } else if kind.is_file() {
            // Properties such as `security-password` are root's to read, and no device's.
            if let Ok(value) = value(&entry.path()) {
                node.properties.push((name, value));
            }
        }
    }
    tree.push(node)?;
    for (folder, name) in children {
        add(tree, &folder, join(&path, &name))?;
    }
    Ok(())
}

fn value(path: &Path) -> io::Result<Vec<u8>> {
    let mut value = Vec::new();
    let mut file = File::open(path)?.take(LARGEST as u64 + 1);
    if file.read_to_end(&mut value)? > LARGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(value)
}
