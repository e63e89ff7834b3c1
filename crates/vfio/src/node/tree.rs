//! A device tree in memory, as a list of nodes with their paths: read from the host's own tree, or from a compiled
//! tree.
//!
//! The kernel shows its tree as a folder for each node and a file for each property
//! (`Documentation/ABI/testing/sysfs-firmware-ofw`). A compiled tree or overlay (`.dtb`, `.dtbo`) follows chapter 5 of
//! the Devicetree Specification; the crate dtoolkit checks the whole blob before anything is taken from it.

use std::fs::{self, DirEntry, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};

/// The deepest level of a node, as in Linux's `fdt.c`.
const DEEPEST: usize = 64;
/// The maximum number of nodes. The largest trees of today's boards have a tenth of that.
const MOST_NODES: usize = 1 << 16;
/// The maximum number of bytes of a property, or of a whole blob.
const LARGEST: usize = 4 << 20;

/// Why a tree cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The folder of the host's device tree cannot be read.
    #[error("cannot read the device tree {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why the folder cannot be read.
        source: io::Error,
    },
    /// The bytes are not a device tree.
    #[error("this is not a compiled device tree")]
    Blob {
        /// What is wrong with the bytes.
        source: dtoolkit::error::FdtParseError,
    },
    /// The tree is larger than any sensible tree.
    #[error("the device tree has {what}, more than {limit}")]
    TooLarge {
        /// The name of what exceeds the limit.
        what: &'static str,
        /// How much there may be.
        limit: usize,
    },
}

/// A device tree from which devices are taken.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    nodes: Vec<SourceNode>,
}

#[derive(Clone, Debug)]
pub(super) struct SourceNode {
    /// From the root: `/soc/uart@9000000`. The root's is `/`.
    pub(super) path: String,
    pub(super) properties: Vec<(String, Vec<u8>)>,
}

impl SourceNode {
    /// The last part of the path.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    pub(super) fn property(&self, name: &str) -> Option<&[u8]> {
        let mut properties = self.properties.iter();
        let (_, value) = properties.find(|(other, _)| other == name)?;
        Some(value)
    }

    /// A property of one cell.
    pub(super) fn cell(&self, name: &str) -> Option<u32> {
        Some(u32::from_be_bytes(self.property(name)?.try_into().ok()?))
    }

    /// A property that lists texts; empty if the node lacks it. `None` if the last text has no end, or a text is not
    /// UTF-8 or is empty.
    pub(super) fn texts(&self, name: &str) -> Option<Vec<String>> {
        let Some(value) = self.property(name) else {
            return Some(Vec::new());
        };
        let texts = value.strip_suffix(&[0]).and_then(|value| {
            let texts = value.split(|byte| *byte == 0);
            let texts = texts.map(|text| Some(std::str::from_utf8(text).ok()?.to_owned()));
            texts.collect::<Option<Vec<String>>>()
        });
        texts.filter(|texts| texts.iter().all(|text| !text.is_empty()))
    }

    /// `compatible`; empty if the node lacks it.
    pub(super) fn kind(&self) -> Vec<String> {
        self.texts("compatible").unwrap_or_default()
    }

    pub(super) fn is_a(&self, kind: &str) -> bool {
        self.kind().iter().any(|name| name == kind)
    }
}

impl Tree {
    /// Where the kernel shows the host's tree. `/proc/device-tree` is a link to it.
    pub const HOST: &'static str = "/sys/firmware/devicetree/base";

    /// Reads a tree of folders, such as [`Tree::HOST`].
    ///
    /// # Errors
    /// The folder cannot be read, or the tree is too large.
    pub fn from_folder(path: &Path) -> Result<Self, TreeError> {
        let mut tree = Self::default();
        add_folder(&mut tree, path, "/".to_owned())?;
        Ok(tree)
    }

    /// Reads a compiled device tree or overlay.
    ///
    /// # Errors
    /// The bytes are not a device tree, or it is too large.
    pub fn from_blob(bytes: &[u8]) -> Result<Self, TreeError> {
        if bytes.len() > LARGEST {
            return Err(TreeError::TooLarge {
                what: "bytes",
                limit: LARGEST,
            });
        }
        let blob = Fdt::new(bytes).map_err(|source| TreeError::Blob { source })?;
        let mut tree = Self::default();
        add_blob_node(&mut tree, blob.root(), "/".to_owned())?;
        Ok(tree)
    }

    /// Adds a node.
    pub(super) fn push(&mut self, node: SourceNode) -> Result<(), TreeError> {
        if self.nodes.len() == MOST_NODES {
            return Err(TreeError::TooLarge {
                what: "nodes",
                limit: MOST_NODES,
            });
        }
        self.nodes.push(node);
        Ok(())
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &SourceNode> {
        self.nodes.iter()
    }

    pub(super) fn node(&self, path: &str) -> Option<&SourceNode> {
        self.nodes().find(|node| node.path == path)
    }

    /// Returns the node with this phandle.
    pub(super) fn by_phandle(&self, phandle: u32) -> Option<&SourceNode> {
        let is = |node: &&SourceNode| {
            ["phandle", "linux,phandle"]
                .iter()
                .any(|name| node.cell(name) == Some(phandle))
        };
        self.nodes().find(is)
    }
}

/// The path of a child.
pub(super) fn join(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}

/// Checks the depth of a node with that path.
fn check_depth(path: &str) -> Result<(), TreeError> {
    if path.matches('/').count() > DEEPEST {
        return Err(TreeError::TooLarge {
            what: "levels",
            limit: DEEPEST,
        });
    }
    Ok(())
}

fn add_blob_node(tree: &mut Tree, node: FdtNode<'_>, path: String) -> Result<(), TreeError> {
    check_depth(&path)?;
    let properties = node.properties();
    tree.push(SourceNode {
        path: path.clone(),
        properties: properties
            .map(|property| (property.name().to_owned(), property.value().to_owned()))
            .collect(),
    })?;
    node.children()
        .try_for_each(|child| add_blob_node(tree, child, join(&path, child.name())))
}

fn add_folder(tree: &mut Tree, folder: &Path, path: String) -> Result<(), TreeError> {
    check_depth(&path)?;
    let failed = |source| TreeError::Folder {
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
        // The kernel's names are ASCII. Its tree contains no links, and no file on which a read waits.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            children.push((entry.path(), name));
        } else if kind.is_file() {
            // Only root may read properties such as `security-password`, and they belong to no device.
            if let Ok(value) = value(&entry.path()) {
                node.properties.push((name, value));
            }
        }
    }
    tree.push(node)?;
    for (folder, name) in children {
        add_folder(tree, &folder, join(&path, &name))?;
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
