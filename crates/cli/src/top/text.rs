//! The tables of `vmbell top` as text. The table of VMs is 80 columns wide unless names are long.

use super::columns::{self, VmColumn};
use super::costs::HINT;
use super::interval::TopInterval;
use super::parts::parts;
use vmbell_report::units::plural;
use vmbell_report::{Block, Screen, terminal};

/// The text if there are no VMs.
pub(super) const NO_VM: &str = "no VM runs on KVM here";

/// How many addresses and vCPUs of a VM are shown at most.
const MOST: usize = 8;

/// An interval as text, with lines of at most this width.
pub(super) fn text(interval: &TopInterval, width: Option<usize>) -> String {
    let color = false;
    terminal(&blocks(interval), Screen { color, width }) + "\n"
}

/// An interval: what was counted, the VMs, their parts, and what is missing.
pub(super) fn blocks(interval: &TopInterval) -> Vec<Block> {
    let title = format!(
        "vmbell top: {}, {:.2} s, by {}",
        plural(interval.vms.len(), "VM"),
        interval.seconds,
        interval.sources.join(" and ")
    );
    let mut blocks = vec![Block::text(title)];
    let vms = columns::sorted(&interval.vms);
    blocks.push(match vms.is_empty() {
        true => Block::text(NO_VM),
        false => Block::Table(columns::table(
            &vms.iter().collect::<Vec<_>>(),
            interval.seconds,
            VmColumn::FIRST,
        )),
    });
    blocks.extend(parts(&vms, interval, MOST).into_iter().map(Block::Table));
    let hint = interval.costs.is_none().then_some(HINT);
    let notes = interval.notes.iter().map(String::as_str).chain(hint);
    blocks.extend(notes.map(Block::text));
    blocks
}

#[cfg(test)]
#[path = "text_test.rs"]
pub(super) mod tests;
