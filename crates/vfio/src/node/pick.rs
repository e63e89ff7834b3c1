//! What is taken from a device's node in a source tree: names, properties and fixed clocks.
//!
//! A compiled overlay lists the references to nodes: `__fixups__` has references to nodes outside the overlay, by
//! label, and `__local_fixups__` has references to its own nodes
//! (`Documentation/devicetree/dynamic-resolution-notes.rst`). A reference is a number (phandle), which in the guest's
//! tree would refer to another node, so properties with references are refused. A tree that is not an overlay does not
//! say which numbers are references.

use std::collections::BTreeMap;
use std::fmt;

use super::device::{DeviceNode, FixedClock, Property};
use super::tree::{SourceNode, Tree, join};

/// The maximum number of clocks of a device; each is looked up in the whole tree.
const CLOCKS_MAX: usize = 64;

/// How the node of a device is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Choice<'c> {
    /// By the node's path, which a device's link `of_node` in sysfs leads to.
    Path(&'c str),
    /// The only node that is a device: it has `compatible`, and is neither the root nor a bus nor a fixed clock.
    Only,
}

impl fmt::Display for Choice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "at {path}"),
            Self::Only => f.write_str("usable as a device"),
        }
    }
}

impl Choice<'_> {
    fn find<'t>(&self, tree: &'t Tree) -> Result<&'t SourceNode, PickError> {
        let is = |node: &&SourceNode| match self {
            Self::Path(path) => node.path == *path,
            Self::Only => is_device(node),
        };
        let nodes: Vec<_> = tree.nodes().filter(is).collect();
        let wanted = self.to_string();
        match nodes.as_slice() {
            [node] => Ok(node),
            [] => Err(PickError::NotFound { wanted }),
            several => Err(PickError::Several {
                wanted,
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

/// Which properties are copied in addition to those that every device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// Properties of many devices' bindings that refer to no other node and mean the same in a guest. They are taken
    /// from the host's tree, where most other properties concern the host.
    Common,
    /// All properties that do not belong to the host. For an overlay, which was written for the guest.
    All,
}

const COMMON: [&str; 15] = [
    "arm,primecell-periphid",
    "clock-frequency",
    "current-speed",
    "dma-names",
    "fifo-size",
    "interrupt-names",
    "local-mac-address",
    "mac-address",
    "max-frame-size",
    "max-speed",
    "phy-mode",
    "reg-io-width",
    "reg-names",
    "reg-offset",
    "reg-shift",
];

/// Why a device cannot be taken from a tree.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PickError {
    /// No node matches the choice.
    #[error("no node of the device tree is {wanted}")]
    NotFound {
        /// What was asked for.
        wanted: String,
    },
    /// Several nodes match the choice.
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
    /// A property is malformed.
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
        /// The node that is referred to.
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

fn malformed(node: &SourceNode, property: &str) -> PickError {
    PickError::Malformed {
        node: node.path.clone(),
        property: property.to_owned(),
    }
}

fn texts(node: &SourceNode, property: &str) -> Result<Vec<String>, PickError> {
    node.texts(property)
        .ok_or_else(|| malformed(node, property))
}

impl Tree {
    /// Returns what can be copied of the chosen node: everything except its place in the guest. `clock-names` is copied
    /// with the clocks.
    ///
    /// # Errors
    /// No node or several nodes match; the node does not say what it is; one of its clocks is not fixed, or something
    /// that would be copied refers to another node.
    pub fn device(&self, choice: &Choice<'_>, copied: Copied) -> Result<DeviceNode, PickError> {
        let node = choice.find(self)?;
        let compatible = texts(node, "compatible")?;
        if compatible.is_empty() {
            let node = node.path.clone();
            return Err(PickError::NoCompatible { node });
        }
        let references = References::read(self, node)?;
        references.check("clocks")?;
        let clocks = fixed_clocks(self, node)?;
        let properties = properties(node, &references, copied, !clocks.is_empty())?;
        let name = node.name().split('@').next().unwrap_or_default();
        Ok(DeviceNode {
            compatible,
            dma_coherent: node.property("dma-coherent").is_some(),
            clocks,
            properties,
            ..DeviceNode::new(name)
        })
    }
}

fn properties(
    node: &SourceNode,
    references: &References<'_>,
    copied: Copied,
    has_clocks: bool,
) -> Result<Vec<Property>, PickError> {
    let mut properties = Vec::new();
    for (name, value) in &node.properties {
        let is_wanted = match name.as_str() {
            "clock-names" => has_clocks,
            name if Property::is_reserved(name) => false,
            name => copied == Copied::All || COMMON.contains(&name),
        };
        if !is_wanted {
            continue;
        }
        references.check(name)?;
        properties.push(Property {
            name: name.clone(),
            value: value.clone(),
        });
    }
    Ok(properties)
}

/// The properties of a node that refer to other nodes.
struct References<'t> {
    node: &'t SourceNode,
    /// Each property with the label that it refers to; without a label, it refers to a node of the same overlay.
    targets: BTreeMap<String, Option<&'t str>>,
}

impl<'t> References<'t> {
    fn read(tree: &'t Tree, node: &'t SourceNode) -> Result<Self, PickError> {
        let mut targets = BTreeMap::new();
        let local = join("/__local_fixups__", node.path.trim_start_matches('/'));
        if let Some(local) = tree.node(&local) {
            let properties = local.properties.iter();
            targets.extend(properties.map(|(name, _)| (name.clone(), None)));
        }
        if let Some(fixups) = tree.node("/__fixups__") {
            for (label, _) in &fixups.properties {
                // Each place is `PATH:PROPERTY:OFFSET`.
                for place in texts(fixups, label)? {
                    let mut parts = place.split(':');
                    if parts.next() == Some(&node.path) {
                        let property = parts.next().unwrap_or_default();
                        targets.insert(property.to_owned(), Some(label.as_str()));
                    }
                }
            }
        }
        Ok(Self { node, targets })
    }

    /// Checks that a copied property refers to no node. Only `clocks` may refer to a node, of the same tree.
    fn check(&self, property: &str) -> Result<(), PickError> {
        let target = match self.targets.get(property) {
            None => return Ok(()),
            Some(None) if property == "clocks" => return Ok(()),
            Some(target) => target.unwrap_or("in the same overlay"),
        };
        Err(PickError::Refers {
            node: self.node.path.clone(),
            property: property.to_owned(),
            target: target.to_owned(),
        })
    }
}

/// Returns the clocks that the property `clocks` refers to. A fixed clock has no cells after its phandle.
fn fixed_clocks(tree: &Tree, node: &SourceNode) -> Result<Vec<FixedClock>, PickError> {
    let value = node.property("clocks").unwrap_or_default();
    let (cells, rest) = value.as_chunks::<4>();
    if !rest.is_empty() || cells.len() > CLOCKS_MAX {
        return Err(malformed(node, "clocks"));
    }
    cells
        .iter()
        .map(|cell| fixed_clock(tree, node, u32::from_be_bytes(*cell)))
        .collect()
}

fn fixed_clock(tree: &Tree, node: &SourceNode, phandle: u32) -> Result<FixedClock, PickError> {
    let Some(clock) = tree.by_phandle(phandle) else {
        let node = node.path.clone();
        return Err(PickError::NoClock { node, phandle });
    };
    if !clock.is_a("fixed-clock") {
        return Err(PickError::NotFixedClock {
            node: node.path.clone(),
            clock: clock.path.clone(),
            kind: clock.kind(),
        });
    }
    if clock.property("#clock-cells").is_some() && clock.cell("#clock-cells") != Some(0) {
        return Err(malformed(clock, "#clock-cells"));
    }
    let frequency = clock.cell("clock-frequency");
    if clock.property("clock-frequency").is_some() && frequency.is_none() {
        return Err(malformed(clock, "clock-frequency"));
    }
    Ok(FixedClock {
        frequency,
        output_names: texts(clock, "clock-output-names")?,
    })
}
