//! An input line of the I/O APIC: its state as a value, the steps that change the state, and the atomic word that any
//! thread of the monitor or the sandbox may change. Each change of the word is one of the transitions of [`LineState`].
//!
//! A classic line has sources that hold it up, and remote IRR (82093AA). A *forwarded* line goes through the states of
//! a hardware-mapped interrupt in a list register of the GIC ([`Activity`]; Arm IHI 0069, `ICH_LR<n>_EL2`; Linux
//! `virt/kvm/arm64/vgic`), so that the rules are the same on both architectures:
//!
//! | step | rule |
//! |---|---|
//! | raised | an edge is latched, and consumed when it is sent; so a second one waits for the end of the first |
//! | sent | inactive becomes pending, and only then: an interrupt is never pending and active at the same time |
//! | taken | the handler begins: pending becomes active |
//! | completed | inactive; then sent again if the level is still high or an edge is latched, and the pin not masked |
//!
//! Remote IRR and the bit `ACTIVE` together encode the three states.

use super::PINS;
use crate::sync::AtomicU32;
use crate::sync::Ordering::{AcqRel, Acquire};

/// A source of a line. The line is up while any source holds it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Devices, and irqfds without a resamplefd.
    User,
    /// All irqfds with a resamplefd, as one source.
    Resample,
}

impl Source {
    pub(super) const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// One bit for each [`Source`] that holds the line up.
const HELD: u32 = Source::User.bit() | Source::Resample.bit();
/// Remote IRR: a local APIC took the line's interrupt, and its EOI has not arrived yet.
pub(super) const REMOTE_IRR: u32 = 1 << 2;
/// An edge of a forwarded line whose interrupt has not been sent.
const LATCHED: u32 = 1 << 3;
/// The handler of a forwarded line's interrupt has begun; means nothing without [`REMOTE_IRR`].
const ACTIVE: u32 = 1 << 4;
/// The bits above count how often the line was driven.
const DRIVEN: u32 = 1 << 8;

/// The state of a forwarded line's interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// No interrupt is under way.
    Inactive,
    /// A local APIC has the interrupt, and its handler has not begun.
    Pending,
    /// The handler has begun, and the host has not seen the end of the interrupt.
    Active,
}

/// The value of a line's word at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineState(pub(super) u32);

impl LineState {
    /// Whether a source holds the line up.
    fn is_held(self) -> bool {
        self.0 & HELD != 0
    }

    /// Whether there is an interrupt to send: a source holds the line up, or an edge is latched.
    pub fn is_up(self) -> bool {
        self.0 & (HELD | LATCHED) != 0
    }

    /// Whether the interrupt was sent and has not ended (remote IRR).
    pub fn has_remote_irr(self) -> bool {
        self.0 & REMOTE_IRR != 0
    }

    /// The state of a forwarded line's interrupt; a classic line is never [`Activity::Active`].
    pub fn activity(self) -> Activity {
        match (self.has_remote_irr(), self.0 & ACTIVE != 0) {
            (false, _) => Activity::Inactive,
            (true, false) => Activity::Pending,
            (true, true) => Activity::Active,
        }
    }

    /// The state after the interrupt is sent: pending, with no edge latched.
    pub(super) fn sent(self) -> Self {
        Self(self.0 & !(LATCHED | ACTIVE) | REMOTE_IRR)
    }
}

/// An input line. All-zero bytes mean that the line is down.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Line(AtomicU32);

/// The I/O APIC's input lines, indexed by pin.
pub type Lines = [Line; PINS];

impl Line {
    /// The line's state at this moment.
    pub fn state(&self) -> LineState {
        LineState(self.0.load(Acquire))
    }

    /// Whether a source holds the line up, or an edge is latched.
    pub fn is_up(&self) -> bool {
        self.state().is_up()
    }

    /// Whether a local APIC took the line's interrupt and the EOI has not arrived (remote IRR).
    pub fn has_remote_irr(&self) -> bool {
        self.state().has_remote_irr()
    }

    /// Makes a source hold the line up, or let it go. Returns whether the line rose.
    pub(super) fn set_source(&self, source: Source, up: bool) -> bool {
        if !up {
            self.0.fetch_and(!source.bit(), AcqRel);
            return false;
        }
        // Counted before remote IRR is checked: a sender that then fails to deliver finds in `undo_remote_irr` that the
        // line was driven meanwhile.
        self.0.fetch_add(DRIVEN, AcqRel);
        !LineState(self.0.fetch_or(source.bit(), AcqRel)).is_held()
    }

    /// Latches an edge of a forwarded line until its interrupt is sent.
    pub(super) fn latch(&self) {
        self.0.fetch_add(DRIVEN, AcqRel);
        self.0.fetch_or(LATCHED, AcqRel);
    }

    /// The line's state after all changes up to now. This is a read-modify-write: if one thread changes the entry and
    /// then reads the line, while another changes the line and then reads the entry, at least one of them sees both
    /// changes.
    pub(super) fn snapshot(&self) -> LineState {
        LineState(self.0.fetch_or(0, AcqRel))
    }

    /// Sends the interrupt: sets remote IRR and clears a latched edge, unless the line has changed since `seen`.
    pub(super) fn set_remote_irr(&self, seen: LineState) -> bool {
        self.0
            .compare_exchange(seen.0, seen.sent().0, AcqRel, Acquire)
            .is_ok()
    }

    /// Undoes [`set_remote_irr`](Self::set_remote_irr), because no local APIC took the interrupt. Returns false if the
    /// line was driven since `seen`: the thread that drove it saw remote IRR and sent nothing, so the caller must send
    /// again.
    pub(super) fn undo_remote_irr(&self, seen: LineState) -> bool {
        let latched = seen.0 & LATCHED;
        // The edge comes back before remote IRR is cleared, so that no other thread sees the line without its edge.
        if latched != 0 {
            self.0.fetch_or(latched, AcqRel);
        }
        self.0.fetch_and(!REMOTE_IRR, AcqRel) == seen.sent().0 | latched
    }

    /// Records that the interrupt's handler begins. Returns the new state, as [`snapshot`](Self::snapshot) does.
    pub(super) fn begin_service(&self) -> LineState {
        LineState(self.0.fetch_or(ACTIVE, AcqRel) | ACTIVE)
    }

    /// Clears remote IRR, because the EOI has arrived or the line no longer waits for it.
    pub fn clear_remote_irr(&self) {
        self.0.fetch_and(!(REMOTE_IRR | ACTIVE), AcqRel);
    }
}
