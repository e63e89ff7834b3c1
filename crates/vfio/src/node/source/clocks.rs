//! The clocks of a device, as far as a guest can have them.

use super::super::clock::FixedClock;
use super::error::SourceError;
use super::tree::{SourceNode, Tree};

/// Clocks of a device; each is looked up in the whole tree.
const MOST: usize = 64;

/// The clocks that `clocks` of a node refers to. A fixed clock has no cells after its phandle.
pub(super) fn read(tree: &Tree, node: &SourceNode) -> Result<Vec<FixedClock>, SourceError> {
    let value = node.property("clocks").unwrap_or_default();
    let (cells, rest) = value.as_chunks::<4>();
    if !rest.is_empty() || cells.len() > MOST {
        return Err(node.malformed("clocks"));
    }
    cells
        .iter()
        .map(|cell| fixed(tree, node, u32::from_be_bytes(*cell)))
        .collect()
}

fn fixed(tree: &Tree, node: &SourceNode, phandle: u32) -> Result<FixedClock, SourceError> {
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
