//! The word of an input line of the I/O APIC, which any thread of the monitor or the sandbox may change. Each change
//! is one of the transitions of [`LineState`].

use crate::sync::AtomicU32;
use crate::sync::Ordering::{AcqRel, Acquire};

use super::PINS;
use super::line_state::{ACTIVE, DRIVEN, LATCHED, LineState, REMOTE_IRR, Source};

/// An input line. All-zero bytes mean that it is down.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Line(AtomicU32);

/// The I/O APIC's input lines, indexed by pin.
pub type Lines = [Line; PINS];

impl Line {
    /// Its state at this moment.
    pub fn state(&self) -> LineState {
        LineState(self.0.load(Acquire))
    }

    /// Whether a source holds the line up, or an edge is latched.
    pub fn is_up(&self) -> bool {
        self.state().is_up()
    }

    /// Whether a local APIC took the line's interrupt and its EOI has not come (remote IRR).
    pub fn has_remote_irr(&self) -> bool {
        self.state().has_remote_irr()
    }

    /// A source holds the line up, or lets it go. Returns whether the line rose.
    pub(super) fn set_source(&self, source: Source, up: bool) -> bool {
        if !up {
            self.0.fetch_and(!source.bit(), AcqRel);
            return false;
        }
        // Counted before the look at remote IRR: a sender that then fails to deliver finds in `undo_remote_irr`
        // that the line was driven meanwhile.
        self.0.fetch_add(DRIVEN, AcqRel);
        !LineState(self.0.fetch_or(source.bit(), AcqRel)).is_held()
    }

    /// An edge of a forwarded line, kept until its interrupt is sent.
    pub(super) fn latch(&self) {
        self.0.fetch_add(DRIVEN, AcqRel);
        self.0.fetch_or(LATCHED, AcqRel);
    }

    /// The line's state after all changes up to now. It is a read-modify-write, so that of two threads, one of
    /// which changes the entry and the other the line before each looks at the other's, one sees both changes.
    pub(super) fn snapshot(&self) -> LineState {
        LineState(self.0.fetch_or(0, AcqRel))
    }

    /// Sends the interrupt: sets remote IRR and takes a latched edge away, unless the line has changed since `seen`.
    pub(super) fn set_remote_irr(&self, seen: LineState) -> bool {
        self.0
            .compare_exchange(seen.0, seen.sent().0, AcqRel, Acquire)
            .is_ok()
    }

    /// Takes back [`set_remote_irr`](Self::set_remote_irr), because no local APIC took the interrupt. False if the
    /// line was driven since `seen`: the driver saw remote IRR and sent nothing, so the caller must send again.
    pub(super) fn undo_remote_irr(&self, seen: LineState) -> bool {
        let latched = seen.0 & LATCHED;
        // Before remote IRR is cleared, so that there is no moment at which the edge is nowhere.
        if latched != 0 {
            self.0.fetch_or(latched, AcqRel);
        }
        self.0.fetch_and(!REMOTE_IRR, AcqRel) == seen.sent().0 | latched
    }

    /// The handler of the line's interrupt begins. Returns the state after that, as [`snapshot`](Self::snapshot) does.
    pub(super) fn begin_service(&self) -> LineState {
        LineState(self.0.fetch_or(ACTIVE, AcqRel) | ACTIVE)
    }

    /// Clears remote IRR: the EOI has come, or the line waits for it no longer.
    pub fn clear_remote_irr(&self) {
        self.0.fetch_and(!(REMOTE_IRR | ACTIVE), AcqRel);
    }
}
