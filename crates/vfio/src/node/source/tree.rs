//! A device tree in memory: a list of nodes with their paths.

use super::error::SourceError;

/// Nodes below nodes, as in Linux's `fdt.c`.
pub(super) const DEEPEST: usize = 64;
/// The largest trees of today's boards have a tenth of that.
pub(super) const MOST_NODES: usize = 1 << 16;
/// Bytes of a property, or of a whole blob.
pub(super) const LARGEST: usize = 4 << 20;

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

    /// A property that lists texts; none if it is not there.
    ///
    /// # Errors
    /// The last text does not end, or one is no UTF-8 or empty.
    pub(super) fn texts(&self, name: &str) -> Result<Vec<String>, SourceError> {
        let Some(value) = self.property(name) else {
            return Ok(Vec::new());
        };
        let texts = value.strip_suffix(&[0]).and_then(|value| {
            let texts = value.split(|byte| *byte == 0);
            let texts = texts.map(|text| Some(std::str::from_utf8(text).ok()?.to_owned()));
            texts.collect::<Option<Vec<String>>>()
        });
        texts
            .filter(|texts| texts.iter().all(|text| !text.is_empty()))
            .ok_or_else(|| self.malformed(name))
    }

    pub(super) fn malformed(&self, property: &str) -> SourceError {
        SourceError::Malformed {
            node: self.path.clone(),
            property: property.to_owned(),
        }
    }

    /// What the node is; nothing if it does not say so.
    pub(super) fn kind(&self) -> Vec<String> {
        self.texts("compatible").unwrap_or_default()
    }

    pub(super) fn is_a(&self, kind: &str) -> bool {
        self.kind().iter().any(|name| name == kind)
    }
}

impl Tree {
    /// Adds a node.
    pub(super) fn push(&mut self, node: SourceNode) -> Result<(), SourceError> {
        if self.nodes.len() == MOST_NODES {
            return Err(SourceError::TooLarge {
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

    /// The node to which others refer by that number.
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
pub(super) fn check_depth(path: &str) -> Result<(), SourceError> {
    if path.matches('/').count() > DEEPEST {
        return Err(SourceError::TooLarge {
            what: "levels",
            limit: DEEPEST,
        });
    }
    Ok(())
}
