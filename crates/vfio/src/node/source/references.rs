//! References of a node to others, which a compiled overlay lists: `__fixups__` those to nodes outside of it, by label,
//! and `__local_fixups__` those to its own nodes (`Documentation/devicetree/dynamic-resolution-notes.rst`). In the
//! guest's tree the numbers would lead anywhere. A tree that is no overlay does not say which numbers are references.

use std::collections::BTreeMap;

use super::error::SourceError;
use super::tree::{SourceNode, Tree, join};

/// The properties of a node that refer to others.
pub(super) struct References<'t> {
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
