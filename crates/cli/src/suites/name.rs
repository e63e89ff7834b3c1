//! The names of the suites: `vmbell list` takes them, and the suite `paths` distinguishes them from names of rows.

use clap::ValueEnum;

/// A suite by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SuiteName {
    /// Doorbells and interrupts of this host's backends, and floors
    Paths,
    /// Virtqueues
    Rings,
    /// Events of interrupts, with PV EOI off and on
    Eoi,
    /// VMMs
    Vmms,
    /// Linux's network driver in a guest
    Net,
}
