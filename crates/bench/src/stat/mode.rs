//! The two modes of a workload, and the series of one run that each gives.

use std::time::Duration;

use crate::Series;

/// Whether the guest is offered PV EOI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// PV EOI is off: the guest writes the EOI register for each interrupt.
    Off,
    /// PV EOI is on: the guest clears a bit in its memory if that is set, and writes the register else.
    On,
}

impl Mode {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "pv-eoi-off",
            Self::On => "pv-eoi-on",
        }
    }

    /// The name of the mode that this one is compared with.
    pub const fn reference(self) -> Option<&'static str> {
        match self {
            Self::Off => None,
            Self::On => Some(Self::Off.name()),
        }
    }
}

/// The counts of one mode.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What counted the events: tracepoints or statistics of the kernel, or the backend.
    pub source: String,
    /// A series of one run, in which one operation is an interrupt that the guest took.
    pub series: Series,
}

/// The name of the count of interrupts that the guest took.
pub const TAKEN: &str = "interrupts taken";
/// The name of the count of those interrupts whose end needed no register.
pub const SPARED: &str = "ends by the bit";

/// The progress of a running workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tick {
    /// The mode that is running.
    pub mode: Mode,
    /// The time since the workload began.
    pub elapsed: Duration,
    /// Exits since the last tick.
    pub exits: u64,
    /// Interrupts since the last tick.
    pub interrupts: u64,
}
