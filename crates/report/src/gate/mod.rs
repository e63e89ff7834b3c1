//! `vmbell gate`: compares the counts of several boots with a baseline, which is the report of an earlier run.
//!
//! `boots` merges several boots into one report, `figures` are the ranges of its rows, `verdict` decides what grew,
//! `view` shows it, and `json` writes it for programs. [`compare`](crate::compare) matches rows and refuses reports.

mod boots;
mod figures;
mod json;
mod verdict;
mod view;

pub use boots::merged;
pub use figures::{BootRange, GateFigures};
pub use json::json;
pub use verdict::{
    FailedBoot, GateChange, GatePlace, GateQuantity, GateRow, GateVerdict, GoneRow, OtherVersion,
};
pub use view::blocks;
