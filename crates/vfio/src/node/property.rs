//! Properties that are copied as they are, and those that never are.

use super::error::NodeError;

/// A property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// Its name.
    pub name: String,
    /// Its value, as it is in the tree.
    pub value: Vec<u8>,
}

/// What the node gets for the guest, and what says something about the host only.
const RESERVED: [&str; 16] = [
    "#address-cells",
    "#size-cells",
    "clocks",
    "compatible",
    "dma-coherent",
    "interrupt-parent",
    "interrupts",
    "interrupts-extended",
    "iommu-map",
    "iommus",
    "linux,phandle",
    "name",
    "phandle",
    "ranges",
    "reg",
    "status",
];

/// Whether a property is set for the guest, or is the host's own business.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Whether a text is the name of a property (Devicetree Specification 2.2.4.1).
pub(super) fn is_name(name: &str) -> bool {
    let is_char = |c: char| c.is_ascii_alphanumeric() || ",._+?#-".contains(c);
    (1..=31).contains(&name.len()) && name.chars().all(is_char)
}

/// Checks the properties to copy.
pub(super) fn check(node: &str, properties: &[Property]) -> Result<(), NodeError> {
    let node = || node.to_owned();
    for (index, Property { name, .. }) in properties.iter().enumerate() {
        let property = name.clone();
        if !is_name(name) {
            return Err(NodeError::PropertyName {
                node: node(),
                property,
            });
        }
        if is_reserved(name) {
            return Err(NodeError::Reserved {
                node: node(),
                property,
            });
        }
        if properties[..index].iter().any(|other| other.name == *name) {
            return Err(NodeError::PropertyTwice {
                node: node(),
                property,
            });
        }
    }
    Ok(())
}
