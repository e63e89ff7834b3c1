//! Why nothing can be taken from a tree.

use std::io;
use std::path::PathBuf;

/// Why a tree cannot be read, or a device not be taken from it.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The folder of the host's device tree cannot be read.
    #[error("cannot read the device tree {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The bytes are no device tree.
    #[error("this is no compiled device tree")]
    Blob {
        /// Why.
        #[source]
        source: dtoolkit::error::FdtParseError,
    },
    /// The tree is larger than any that is sensible.
    #[error("the device tree has {what}, more than {limit}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        limit: usize,
    },
    /// The name of a device in sysfs leads to no name of a node.
    #[error("{name} is no device of a device tree: these are named ADDRESS.NAME")]
    NotFromTree {
        /// The name.
        name: String,
    },
    /// No node is the one that was asked for.
    #[error("no node of the device tree is {wanted}")]
    NotFound {
        /// What was asked for.
        wanted: String,
    },
    /// Several nodes are what was asked for.
    #[error("several nodes of the device tree are {wanted}: {}", paths.join(", "))]
    Several {
        /// What was asked for.
        wanted: String,
        /// The nodes.
        paths: Vec<String>,
    },
    /// The node does not say what it is.
    #[error("{node} has no 'compatible'")]
    NoCompatible {
        /// The node.
        node: String,
    },
    /// A property does not have the form that it has to have.
    #[error("{node}: the value of '{property}' is malformed")]
    Malformed {
        /// The node.
        node: String,
        /// The property.
        property: String,
    },
    /// A clock of the device is not in the tree.
    #[error("{node}: no node has the phandle {phandle:#x} of its clock")]
    NoClock {
        /// The node.
        node: String,
        /// The clock's phandle.
        phandle: u32,
    },
    /// A clock of the device cannot be given to a guest.
    #[error(
        "{node}: its clock {clock} is not a fixed-clock but {}, which a guest cannot drive",
        kind_text(kind)
    )]
    NotFixedClock {
        /// The node.
        node: String,
        /// The clock's node.
        clock: String,
        /// What the clock is.
        kind: Vec<String>,
    },
    /// A property refers to another node, which the guest does not have.
    #[error(
        "{node}: the property '{property}' refers to another node ({target}), which the guest does not have"
    )]
    Refers {
        /// The node.
        node: String,
        /// The property.
        property: String,
        /// The other node.
        target: String,
    },
}

fn kind_text(kind: &[String]) -> String {
    if kind.is_empty() {
        "of no kind".to_owned()
    } else {
        kind.join(", ")
    }
}
