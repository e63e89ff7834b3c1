//! Options that several subcommands have: their values, what names a file of an export, and how a command line is passed on to
//! another `vmbell`.
//!
//! What only measurements have is in `suites`.

pub(crate) mod exports;
pub(crate) mod forward;
pub(crate) mod suggest;
pub(crate) mod values;

/// Headings of options in `--help` that several subcommands have.
pub(crate) const GUEST: &str = "The guest";
pub(crate) const MACHINE: &str = "The machine";
pub(crate) const MEASUREMENT: &str = "How it is measured";
pub(crate) const OUTPUT: &str = "Output";
pub(crate) const SUBJECT: &str = "What is measured";
