//! Which node of a tree is meant.

use std::fmt;

use super::error::SourceError;
use super::tree::{SourceNode, Tree};

/// How the node of a device is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'c> {
    /// By the name of the device in sysfs, `ADDRESS.NAME`, whose node is `NAME@ADDRESS`, and by what the device is.
    Sysfs {
        /// The name.
        name: &'c str,
        /// One of the names in `compatible`.
        compatible: &'c str,
    },
    /// By the node's path, which a device's link `of_node` in sysfs leads to.
    Path(&'c str),
    /// By its label in the source, if the tree was compiled with `dtc -@`.
    Symbol(&'c str),
    /// By one of the names in `compatible`.
    Compatible(&'c str),
    /// The only node that is a device: it has `compatible`, and is neither the root nor a bus nor a fixed clock.
    Only,
}

impl fmt::Display for Choice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysfs { name, compatible } => match name.split_once('.') {
                Some((address, name)) => {
                    write!(f, "named {name}@{address} and compatible with {compatible}")
                }
                None => write!(f, "named {name}"),
            },
            Self::Path(path) => write!(f, "at {path}"),
            Self::Symbol(symbol) => write!(f, "labelled {symbol}"),
            Self::Compatible(compatible) => write!(f, "compatible with {compatible}"),
            Self::Only => f.write_str("usable as a device"),
        }
    }
}

impl Choice<'_> {
    /// The node that is meant.
    pub(super) fn find<'t>(&self, tree: &'t Tree) -> Result<&'t SourceNode, SourceError> {
        let nodes: Vec<_> = match *self {
            Self::Sysfs { name, compatible } => {
                let (address, name) = sysfs(name)?;
                let is = |node: &&SourceNode| unit(node.name()) == Some((name, address));
                tree.nodes()
                    .filter(is)
                    .filter(|node| node.is_a(compatible))
                    .collect()
            }
            Self::Path(path) => tree.node(path).into_iter().collect(),
            Self::Symbol(symbol) => {
                let symbols = tree.node("/__symbols__");
                let paths = symbols.map_or_else(|| Ok(Vec::new()), |node| node.texts(symbol))?;
                paths.iter().filter_map(|path| tree.node(path)).collect()
            }
            Self::Compatible(compatible) => {
                tree.nodes().filter(|node| node.is_a(compatible)).collect()
            }
            Self::Only => tree.nodes().filter(|node| is_device(node)).collect(),
        };
        match nodes.as_slice() {
            [node] => Ok(node),
            [] => Err(SourceError::NotFound {
                wanted: self.to_string(),
            }),
            several => Err(SourceError::Several {
                wanted: self.to_string(),
                paths: several.iter().map(|node| node.path.clone()).collect(),
            }),
        }
    }
}

fn is_device(node: &SourceNode) -> bool {
    let no_device = |name: &String| ["simple-bus", "fixed-clock"].contains(&name.as_str());
    let kind = node.kind();
    node.path != "/" && !kind.is_empty() && !kind.iter().any(no_device)
}

/// The address and the name in a name of sysfs.
fn sysfs(name: &str) -> Result<(u64, &str), SourceError> {
    let parts = name.split_once('.');
    parts
        .and_then(|(address, name)| Some((u64::from_str_radix(address, 16).ok()?, name)))
        .ok_or_else(|| SourceError::NotFromTree {
            name: name.to_owned(),
        })
}

/// The name and the address in the name of a node.
fn unit(name: &str) -> Option<(&str, u64)> {
    let (name, address) = name.split_once('@')?;
    Some((name, u64::from_str_radix(address, 16).ok()?))
}
