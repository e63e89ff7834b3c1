//! `vmbell gate`: figures of several boots, held against those of a budget.
//!
//! `figures` makes ranges of what boots measured, `verdict` says what grew, and `view` shows it to people, and `json` writes it for
//! programs.

mod figures;
mod json;
mod verdict;
mod view;

pub use figures::{BootFailure, Figures, Range, Samples};
pub use json::json;
pub use verdict::{Change, Failed, Gone, Measured, Name, Place, Quantity, Verdict, Version, judge};
pub use view::blocks;
