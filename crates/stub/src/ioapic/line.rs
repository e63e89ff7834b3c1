//! How an input line of the I/O APIC stands: who holds it up, and whether its interrupt waits for an EOI.

use crate::sync::AtomicU32;
use crate::sync::Ordering::{AcqRel, Acquire};

use super::PINS;

/// Who drives a line: it is up while any of them holds it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Devices, and irqfds that are edges.
    User,
    /// Resampling irqfds, all of them together.
    Resample,
}

/// A bit for each [`Source`] that holds the line up.
const HELD: u32 = 1 << Source::User as u32 | 1 << Source::Resample as u32;
/// The line's interrupt was taken by a local APIC, and its EOI has not come.
const REMOTE_IRR: u32 = 1 << 2;
/// The bits above count how often the line was driven.
const DRIVEN: u32 = 1 << 8;

/// A line. All-zero bytes are: down.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Line(AtomicU32);

/// The I/O APIC's lines by the numbers of their pins.
pub type Lines = [Line; PINS];

/// What a line's word said at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(u32);

impl State {
    pub(super) fn is_up(self) -> bool {
        self.0 & HELD != 0
    }

    pub(super) fn waits_for_eoi(self) -> bool {
        self.0 & REMOTE_IRR != 0
    }
}

impl Line {
    /// Whether a device or a resampling irqfd holds the line up.
    pub fn is_up(&self) -> bool {
        State(self.0.load(Acquire)).is_up()
    }

    /// Whether a local APIC took the line's interrupt and its EOI has not come (remote IRR).
    pub fn waits_for_eoi(&self) -> bool {
        State(self.0.load(Acquire)).waits_for_eoi()
    }

    /// A source lets it go, or holds it up; whether it rose.
    pub(super) fn hold(&self, source: Source, up: bool) -> bool {
        let bit = 1 << source as u32;
        if !up {
            self.0.fetch_and(!bit, AcqRel);
            return false;
        }
        // Counted first, so that a sender who gives up finds that somebody relied on it.
        self.0.fetch_add(DRIVEN, AcqRel);
        !State(self.0.fetch_or(bit, AcqRel)).is_up()
    }

    /// How it stands, as the last of all who changed it up to now. A read-modify-write, so that of two
    /// who change entry and line and then look at the other, one sees both.
    pub(super) fn look(&self) -> State {
        State(self.0.fetch_or(0, AcqRel))
    }

    /// Sets remote IRR, unless the line has changed since `seen`.
    pub(super) fn begin(&self, seen: State) -> bool {
        let begun = seen.0 | REMOTE_IRR;
        self.0
            .compare_exchange(seen.0, begun, AcqRel, Acquire)
            .is_ok()
    }

    /// No local APIC took what was sent: takes remote IRR back. False if the line was driven since
    /// `seen` by somebody who saw remote IRR and left the sending to us.
    pub(super) fn give_up(&self, seen: State) -> bool {
        self.0.fetch_and(!REMOTE_IRR, AcqRel) == seen.0 | REMOTE_IRR
    }

    /// The EOI has come, or is waited for no longer.
    pub fn end(&self) {
        self.0.fetch_and(!REMOTE_IRR, AcqRel);
    }
}
