//! A compiled tree or overlay (`.dtb`, `.dtbo`): chapter 5 of the Devicetree Specification. The crate dtoolkit checks
//! the whole blob before anything is taken from it.

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};

use super::error::SourceError;
use super::tree::{LARGEST, SourceNode, Tree, check_depth, join};

impl Tree {
    /// Reads a compiled device tree or overlay.
    ///
    /// # Errors
    /// The bytes are none, or the tree is too large.
    pub fn from_blob(bytes: &[u8]) -> Result<Self, SourceError> {
        if bytes.len() > LARGEST {
            return Err(SourceError::TooLarge {
                what: "bytes",
                limit: LARGEST,
            });
        }
        let blob = Fdt::new(bytes).map_err(|source| SourceError::Blob { source })?;
        let mut tree = Self::default();
        add(&mut tree, blob.root(), "/".to_owned())?;
        Ok(tree)
    }
}

fn add(tree: &mut Tree, node: FdtNode<'_>, path: String) -> Result<(), SourceError> {
    check_depth(&path)?;
    let properties = node.properties();
    tree.push(SourceNode {
        path: path.clone(),
        properties: properties
            .map(|property| (property.name().to_owned(), property.value().to_owned()))
            .collect(),
    })?;
    node.children()
        .try_for_each(|child| add(tree, child, join(&path, child.name())))
}
