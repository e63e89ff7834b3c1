//! The state of an input line of the I/O APIC: its sources, and whether its interrupt waits for an EOI (remote
//! IRR). Any thread of the monitor or the sandbox may change it.

use crate::sync::AtomicU32;
use crate::sync::Ordering::{AcqRel, Acquire};

use super::PINS;

/// A source of a line. The line is up while any source holds it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Devices, and irqfds without a resamplefd.
    User,
    /// All irqfds with a resamplefd together.
    Resample,
}

/// A bit for each [`Source`] that holds the line up.
const HELD: u32 = 1 << Source::User as u32 | 1 << Source::Resample as u32;
/// Remote IRR: a local APIC took the line's interrupt, and its EOI has not come.
const REMOTE_IRR: u32 = 1 << 2;
/// The bits above count how often the line was driven.
const DRIVEN: u32 = 1 << 8;

/// An input line. All-zero bytes mean that it is down.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Line(AtomicU32);

/// The I/O APIC's input lines, indexed by pin.
pub type Lines = [Line; PINS];

/// The value of a line's word at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineState(u32);

impl LineState {
    pub(super) fn is_up(self) -> bool {
        self.0 & HELD != 0
    }

    pub(super) fn has_remote_irr(self) -> bool {
        self.0 & REMOTE_IRR != 0
    }
}

impl Line {
    /// Whether a device or a resampling irqfd holds the line up.
    pub fn is_up(&self) -> bool {
        LineState(self.0.load(Acquire)).is_up()
    }

    /// Whether a local APIC took the line's interrupt and its EOI has not come (remote IRR).
    pub fn has_remote_irr(&self) -> bool {
        LineState(self.0.load(Acquire)).has_remote_irr()
    }

    /// A source holds the line up, or lets it go. Returns whether the line rose.
    pub(super) fn set_source(&self, source: Source, up: bool) -> bool {
        let bit = 1 << source as u32;
        if !up {
            self.0.fetch_and(!bit, AcqRel);
            return false;
        }
        // Counted before the look at remote IRR: a sender that then fails to deliver finds in `undo_remote_irr`
        // that the line was driven meanwhile.
        self.0.fetch_add(DRIVEN, AcqRel);
        !LineState(self.0.fetch_or(bit, AcqRel)).is_up()
    }

    /// The line's state after all changes up to now. It is a read-modify-write, so that of two threads, one of
    /// which changes the entry and the other the line before each looks at the other's, one sees both changes.
    pub(super) fn snapshot(&self) -> LineState {
        LineState(self.0.fetch_or(0, AcqRel))
    }

    /// Sets remote IRR, unless the line has changed since `seen`.
    pub(super) fn set_remote_irr(&self, seen: LineState) -> bool {
        let set = seen.0 | REMOTE_IRR;
        self.0
            .compare_exchange(seen.0, set, AcqRel, Acquire)
            .is_ok()
    }

    /// Clears remote IRR again because no local APIC took the interrupt. False if the line was driven since
    /// `seen`: the driver saw remote IRR and sent nothing, so the caller must send again.
    pub(super) fn undo_remote_irr(&self, seen: LineState) -> bool {
        self.0.fetch_and(!REMOTE_IRR, AcqRel) == seen.0 | REMOTE_IRR
    }

    /// Clears remote IRR: the EOI has come, or the line waits for it no longer.
    pub fn clear_remote_irr(&self) {
        self.0.fetch_and(!REMOTE_IRR, AcqRel);
    }
}
