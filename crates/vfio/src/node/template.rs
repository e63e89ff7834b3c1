//! What is taken from a device's node in another tree: names, properties and fixed clocks.
//!
//! A compiled overlay lists the references of a node to others: `__fixups__` those to nodes outside of it, by label,
//! and `__local_fixups__` those to its own nodes (`Documentation/devicetree/dynamic-resolution-notes.rst`). In the
//! guest's tree these numbers would point to other nodes, so such properties are refused. A tree that is not an overlay
//! does not say which numbers are references.

use std::collections::BTreeMap;

use super::choice::Choice;
use super::clock::FixedClock;
use super::device::DeviceNode;
use super::error::SourceError;
use super::interrupt::NodeInterrupt;
use super::property::{Property, is_reserved};
use super::region::NodeRegion;
use super::tree::{SourceNode, Tree, join};

/// Which properties are copied in addition to those that every device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied<'c> {
    /// Only the properties in the list. It is for the host's tree, where most properties concern the host.
    Listed(&'c [&'c str]),
    /// All that do not belong to the host. It is for an overlay, which was written for the guest.
    All,
}

impl Copied<'_> {
    /// Properties of the bindings of many devices that hold no reference to another node and say the same in a guest.
    pub const COMMON: Self = Copied::Listed(&[
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
    ]);

    fn has(self, name: &str) -> bool {
        match self {
            Self::Listed(names) => names.contains(&name),
            Self::All => true,
        }
    }
}

/// A device as another tree describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The name of the node, without an address.
    pub name: String,
    /// What the device is.
    pub compatible: Vec<String>,
    /// Its DMA sees the caches of the CPUs.
    pub dma_coherent: bool,
    /// Its clocks.
    pub clocks: Vec<FixedClock>,
    /// The other properties that are copied.
    pub properties: Vec<Property>,
}

impl Template {
    /// The device with those registers and interrupts in the guest.
    pub fn device(self, regions: Vec<NodeRegion>, interrupts: Vec<NodeInterrupt>) -> DeviceNode {
        DeviceNode {
            name: self.name,
            compatible: self.compatible,
            regions,
            interrupts,
            dma_coherent: self.dma_coherent,
            clocks: self.clocks,
            properties: self.properties,
        }
    }
}

impl Tree {
    /// What can be copied of the node that is meant. `clock-names` is copied with the clocks.
    ///
    /// # Errors
    /// No node is meant, or several are; the node does not say what it is; one of its clocks is not fixed, or something
    /// that would be copied refers to another node.
    pub fn template(
        &self,
        choice: &Choice<'_>,
        copied: Copied<'_>,
    ) -> Result<Template, SourceError> {
        let node = choice.find(self)?;
        let compatible = node.texts("compatible")?;
        if compatible.is_empty() {
            let node = node.path.clone();
            return Err(SourceError::NoCompatible { node });
        }
        let references = References::read(self, node)?;
        references.check("clocks")?;
        let clocks = fixed_clocks(self, node)?;
        let properties = properties(node, &references, copied, !clocks.is_empty())?;
        Ok(Template {
            name: node.name().split('@').next().unwrap_or_default().to_owned(),
            compatible,
            dma_coherent: node.property("dma-coherent").is_some(),
            clocks,
            properties,
        })
    }
}

fn properties(
    node: &SourceNode,
    references: &References<'_>,
    copied: Copied<'_>,
    has_clocks: bool,
) -> Result<Vec<Property>, SourceError> {
    let mut properties = Vec::new();
    for (name, value) in &node.properties {
        let is_wanted = match name.as_str() {
            "clock-names" => has_clocks,
            name => copied.has(name) && !is_reserved(name),
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

/// The properties of a node that refer to others.
struct References<'t> {
    node: &'t SourceNode,
    /// Each with the label that it refers to; without one to a node of the same overlay.
    targets: BTreeMap<String, Option<&'t str>>,
}

impl<'t> References<'t> {
    pub(super) fn read(tree: &'t Tree, node: &'t SourceNode) -> Result<Self, SourceError> {
        let mut targets = BTreeMap::new();
        let local = join("/__local_fixups__", node.path.trim_start_matches('/'));
        if let Some(local) = tree.node(&local) {
            let properties = local.properties.iter();
            targets.extend(properties.map(|(name, _)| (name.clone(), None)));
        }
        if let Some(fixups) = tree.node("/__fixups__") {
            for (label, _) in &fixups.properties {
                // Each place is `PATH:PROPERTY:OFFSET`.
                for place in fixups.texts(label)? {
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

    /// Checks that a property which is copied refers to no node; `clocks` may, to a node of the same tree.
    pub(super) fn check(&self, property: &str) -> Result<(), SourceError> {
        let target = match self.targets.get(property) {
            None => return Ok(()),
            Some(None) if property == "clocks" => return Ok(()),
            Some(target) => target.unwrap_or("in the same overlay"),
        };
        Err(SourceError::Refers {
            node: self.node.path.clone(),
            property: property.to_owned(),
            target: target.to_owned(),
        })
    }
}

/// Clocks of a device; each is looked up in the whole tree.
const CLOCKS_MAX: usize = 64;

/// The clocks that `clocks` of a node refers to. A fixed clock has no cells after its phandle.
fn fixed_clocks(tree: &Tree, node: &SourceNode) -> Result<Vec<FixedClock>, SourceError> {
    let value = node.property("clocks").unwrap_or_default();
    let (cells, rest) = value.as_chunks::<4>();
    if !rest.is_empty() || cells.len() > CLOCKS_MAX {
        return Err(node.malformed("clocks"));
    }
    cells
        .iter()
        .map(|cell| fixed_clock(tree, node, u32::from_be_bytes(*cell)))
        .collect()
}

fn fixed_clock(tree: &Tree, node: &SourceNode, phandle: u32) -> Result<FixedClock, SourceError> {
    let Some(clock) = tree.by_phandle(phandle) else {
        let node = node.path.clone();
        return Err(SourceError::NoClock { node, phandle });
    };
    if !clock.is_a("fixed-clock") {
        return Err(SourceError::NotFixedClock {
            node: node.path.clone(),
            clock: clock.path.clone(),
            kind: clock.kind(),
        });
    }
    if clock.property("#clock-cells").is_some() && clock.cell("#clock-cells") != Some(0) {
        return Err(clock.malformed("#clock-cells"));
    }
    let frequency = clock.cell("clock-frequency");
    if clock.property("clock-frequency").is_some() && frequency.is_none() {
        return Err(clock.malformed("clock-frequency"));
    }
    Ok(FixedClock {
        frequency,
        output_names: clock.texts("clock-output-names")?,
    })
}
