//! What is taken from a device's node in another tree.

use super::super::clock::FixedClock;
use super::super::device::DeviceNode;
use super::super::interrupt::NodeInterrupt;
use super::super::property::{Property, is_reserved};
use super::super::region::NodeRegion;
use super::choice::Choice;
use super::clocks;
use super::error::SourceError;
use super::references::References;
use super::tree::{SourceNode, Tree};

/// Which properties are copied beside those that every device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied<'c> {
    /// Those in the list, where the node has them. It is for the host's tree, most of which concerns the host.
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
    /// What is copied beside that.
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
        let clocks = clocks::read(self, node)?;
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
