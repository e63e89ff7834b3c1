//! Reads a flattened device tree and adds properties to its nodes (Devicetree Specification, version 0.4, chapter 5).
//!
//! The lab edits only the tree that QEMU makes for its machine. The rest of that tree stays as it is.

use crate::error::{LabError, failed};

const MAGIC: u32 = 0xd00d_feed;
/// The header's length in bytes, and the versions in it: the format's own, and the oldest that can still read it.
const HEADER: usize = 40;
const VERSION: u32 = 17;
const COMPATIBLE: u32 = 16;

const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOP: u32 = 4;

/// A device tree, split into its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceTree {
    /// The memory reservation block, including the empty entry at its end.
    reservations: Vec<u8>,
    /// The structure block: nodes and properties.
    structure: Vec<u8>,
    /// The strings block: names of properties.
    strings: Vec<u8>,
    boot_cpu: u32,
}

impl DeviceTree {
    /// Splits the blob into its blocks, and checks that its nodes can be walked.
    pub fn parse(blob: &[u8]) -> Result<Self, LabError> {
        let tree = Self::parts(blob).filter(|tree| tree.walk(|_, _| {}).is_some());
        tree.ok_or_else(|| failed!("a broken device tree of {} bytes", blob.len()))
    }

    fn parts(blob: &[u8]) -> Option<Self> {
        let place = |at: usize| Some(word(blob, at)? as usize);
        let sized = |start: usize, size: usize| blob.get(start..start.checked_add(size)?);
        if word(blob, 0)? != MAGIC {
            return None;
        }
        let reservations = blob.get(place(16)?..)?;
        let entries = reservations.chunks_exact(16);
        let used = entries.take_while(|entry| **entry != [0; 16]).count() + 1;
        Some(Self {
            reservations: reservations.get(..used * 16)?.to_vec(),
            structure: sized(place(8)?, place(36)?)?.to_vec(),
            strings: sized(place(12)?, place(32)?)?.to_vec(),
            boot_cpu: word(blob, 28)?,
        })
    }

    /// Returns the phandle of a node, by which other nodes refer to it.
    pub fn phandle(&self, path: &str) -> Result<u32, LabError> {
        const NAME: &str = "phandle";
        self.node(path)?;
        let mut found = None;
        self.walk(|own, item| {
            if let TreeItem::Property { name, value } = item
                && own == path
                && name == NAME.as_bytes()
            {
                found = word(value, 0);
            }
        });
        found.ok_or_else(|| failed!("the device tree's node {path} has no number {NAME}"))
    }

    /// Adds a property before the node's other properties. The node must not have it yet.
    pub fn add(&mut self, path: &str, name: &str, value: &[u8]) -> Result<(), LabError> {
        let place = self.node(path)?;
        let (length, string) = (number(value.len()), number(self.strings.len()));
        self.strings.extend(name.as_bytes());
        self.strings.push(0);
        let mut property = [PROPERTY, length, string].map(u32::to_be_bytes).concat();
        property.extend(value);
        property.resize(property.len().next_multiple_of(4), 0);
        self.structure.splice(place..place, property);
        Ok(())
    }

    /// Assembles the blob.
    pub fn to_bytes(&self) -> Vec<u8> {
        let structure = HEADER + self.reservations.len();
        let strings = structure + self.structure.len();
        let end = strings + self.strings.len();
        let header = [
            MAGIC,
            number(end),
            number(structure),
            number(strings),
            number(HEADER),
            VERSION,
            COMPATIBLE,
            self.boot_cpu,
            number(self.strings.len()),
            number(self.structure.len()),
        ];
        let mut blob = header.map(u32::to_be_bytes).concat();
        blob.extend(&self.reservations);
        blob.extend(&self.structure);
        blob.extend(&self.strings);
        blob
    }

    /// Returns where the properties of the node begin.
    fn node(&self, path: &str) -> Result<usize, LabError> {
        let mut found = None;
        self.walk(|own, item| {
            if let TreeItem::Node { properties } = item
                && own == path
            {
                found = Some(properties);
            }
        });
        found.ok_or_else(|| failed!("the device tree has no node {path}"))
    }

    /// Calls `visit` with every node and property and the node's path. Returns `None` if the structure is broken.
    fn walk(&self, mut visit: impl FnMut(&str, TreeItem<'_>)) -> Option<()> {
        let mut path: Vec<&str> = Vec::new();
        let mut at = 0;
        loop {
            let token = word(&self.structure, at)?;
            at += 4;
            match token {
                BEGIN_NODE => {
                    let name = text(self.structure.get(at..)?)?;
                    at = (at + name.len() + 1).next_multiple_of(4);
                    path.push(std::str::from_utf8(name).ok()?);
                    visit(&joined(&path), TreeItem::Node { properties: at });
                }
                PROPERTY => {
                    let length = word(&self.structure, at)? as usize;
                    let name = word(&self.structure, at + 4)? as usize;
                    let name = text(self.strings.get(name..)?)?;
                    let value = self.structure.get(at + 8..)?.get(..length)?;
                    visit(&joined(&path), TreeItem::Property { name, value });
                    at = (at + 8 + length).next_multiple_of(4);
                }
                END_NODE => {
                    path.pop()?;
                    if path.is_empty() {
                        return Some(());
                    }
                }
                NOP => {}
                _ => return None,
            }
        }
    }
}

/// An item that a walk visits.
enum TreeItem<'a> {
    /// A node, and the offset of its properties in the structure block.
    Node { properties: usize },
    /// A property.
    Property { name: &'a [u8], value: &'a [u8] },
}

/// Joins the path of a node; the root has an empty name.
fn joined(path: &[&str]) -> String {
    match path {
        [_root] => "/".to_owned(),
        path => path.join("/"),
    }
}

/// Returns the bytes before the next zero.
fn text(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some(&bytes[..end])
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// Converts a length in a tree, which is always far below 4 GiB.
fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "device_tree_test.rs"]
mod tests;
