//! `vmbell gate`: what several boots counted, held against a baseline, which is such a report of before.
//!
//! `boots` makes one report of several boots, `figures` are the ranges of its rows, `verdict` says what grew, `view` shows it to people, and `json` writes it for
//! programs. Rows are matched, and reports refused, by [`compare`](crate::compare).

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
