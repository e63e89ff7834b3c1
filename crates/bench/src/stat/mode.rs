//! What a workload's events were, as a series of one run.

use std::time::Duration;

use crate::Series;

/// Whether the guest is offered PV EOI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It writes the register for each interrupt.
    Off,
    /// It clears a bit in its memory where that is set.
    On,
}

impl Mode {
    /// As it stands in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "pv-eoi-off",
            Self::On => "pv-eoi-on",
        }
    }

    /// The mode that it is compared with, by name.
    pub const fn reference(self) -> Option<&'static str> {
        match self {
            Self::Off => None,
            Self::On => Some(Self::Off.name()),
        }
    }
}

/// One mode's counts.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Who counted.
    pub source: String,
    /// One run, of which an operation is an interrupt that the guest took.
    pub series: Series,
}

/// What a mode counts itself: interrupts that the guest took.
pub const TAKEN: &str = "interrupts taken";
/// Of those, the ends that needed no register.
pub const SPARED: &str = "ends by the bit";

/// A moment of a running workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tick {
    /// Which mode.
    pub mode: Mode,
    /// Since the start.
    pub elapsed: Duration,
    /// Since the last tick.
    pub exits: u64,
    /// Since the last tick.
    pub interrupts: u64,
}
