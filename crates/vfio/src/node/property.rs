//! Properties of a node: their values as big-endian 32-bit cells, which ones are copied as they are, and which never
//! are.

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

/// The value of a property that lists texts.
pub(super) fn texts(texts: &[String]) -> Vec<u8> {
    texts
        .iter()
        .flat_map(|text| text.bytes().chain([0]))
        .collect()
}

/// Whether a text can be in such a list.
pub(super) fn is_listable(text: &str) -> bool {
    !text.is_empty() && !text.contains('\0')
}

/// The value of a property of cells.
pub(super) fn cells(cells: &[u32]) -> Vec<u8> {
    cells.iter().flat_map(|cell| cell.to_be_bytes()).collect()
}

/// Adds a number as one cell or two.
pub(super) fn push(cells: &mut Vec<u8>, number: u64, count: u32) {
    let bytes = number.to_be_bytes();
    let first = if count == 1 { 4 } else { 0 };
    cells.extend_from_slice(&bytes[first..]);
}
