//! What several subcommands share: values of options, export options, and passing a command line on to another
//! `vmbell`.
//!
//! Options that only measurements have are in `suites`.

pub(crate) mod exports;
pub(crate) mod forward;
pub(crate) mod suggest;
pub(crate) mod values;

/// Headings in `--help` that several subcommands use.
pub(crate) const GUEST: &str = "The guest";
pub(crate) const MACHINE: &str = "The machine";
pub(crate) const MEASUREMENT: &str = "How it is measured";
pub(crate) const OUTPUT: &str = "Output";
pub(crate) const SUBJECT: &str = "What is measured";
