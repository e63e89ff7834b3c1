//! `vmbell gate`: figures of several boots, held against those of a budget.
//!
//! `figures` makes ranges of what boots measured, `verdict` says what grew, and `text` and `json` write that for people and for
//! programs.

mod figures;
mod json;
mod text;
mod verdict;

pub use figures::{BootFailure, Figures, Range, Samples};
pub use json::json;
pub use text::{markdown, terminal};
pub use verdict::{Change, Failed, Gone, Measured, Name, Place, Quantity, Verdict, Version, judge};
