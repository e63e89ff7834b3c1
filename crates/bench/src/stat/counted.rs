//! What a workload's events were.

use std::time::Duration;

use vmbell::hypervisor::EventCounts;

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
}

/// One mode's counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Which mode.
    pub mode: Mode,
    /// Who counted.
    pub source: String,
    /// Every event by name, those that never happened included.
    pub events: EventCounts,
    /// The events that are exits of the guest.
    pub exits: u64,
    /// Interrupts that the guest took.
    pub interrupts: u64,
    /// Of those, the ends that needed no register.
    pub spared: u64,
    /// How long it took.
    pub elapsed: Duration,
}

impl Counted {
    /// Exits for each interrupt; none without interrupts.
    #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub fn exits_per_interrupt(&self) -> Option<f64> {
        (self.interrupts > 0).then(|| self.exits as f64 / self.interrupts as f64)
    }
}

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
