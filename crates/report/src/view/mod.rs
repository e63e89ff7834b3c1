//! What is shown of a report, as [`Block`]s: a view for each suite. Views do not lay out text.
//!
//! `numbers` makes the cells of a measured row, for the tables of all views and of the page; `header` says where and
//! how the report was measured, `answer` what the rows mean.

pub(crate) mod answer;
mod bar;
mod brief;
mod eoi;
pub(crate) mod excuses;
pub(crate) mod header;
pub(crate) mod numbers;
mod paths;
mod rings;
mod vmm_counts;
mod vmm_exits;
pub(crate) mod vmms;

use crate::table::Block;
use crate::{Kind, Report, TimeUnit};

/// What is shown of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether to show everything. For paths: the whole header, floors, intervals, exits and footnotes.
    pub verbose: bool,
    /// Whether a table of VMMs has ratios to its first column instead of the measured numbers.
    pub ratios: bool,
    /// Whether each median has a bar next to it, if the lines are long enough.
    pub bars: bool,
    /// The unit of all times; `None` for the unit that fits each time.
    pub unit: Option<TimeUnit>,
}

/// Shows `report`, in the form of its suite.
pub fn blocks(report: &Report, look: Look) -> Vec<Block> {
    match &report.kind {
        Kind::Paths(paths) if look.verbose => paths::blocks(report, paths, look),
        Kind::Paths(_) => brief::blocks(report, look),
        Kind::Rings { work } => rings::blocks(report, work, look),
        Kind::Eoi { work } => eoi::blocks(report, work),
        Kind::Vmms { .. } | Kind::Net { .. } => vmms::blocks(report, look),
    }
}

/// The maximum number of columns that a report uses on a wider terminal; `None` if it uses all.
pub fn widest(report: &Report, look: Look) -> Option<usize> {
    (report.paths().is_some() && !look.verbose).then_some(brief::WIDEST)
}
