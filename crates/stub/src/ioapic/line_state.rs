//! The state of a line as a value, and what each step makes of it: pure logic, without a thread or a lock.
//!
//! A classic line has sources that hold it up and remote IRR (82093AA). A *forwarded* line goes through the states of
//! a hardware-mapped interrupt in a list register of the GIC ([`Activity`]; Arm IHI 0069, `ICH_LR<n>_EL2`; Linux
//! `virt/kvm/arm64/vgic`), so that the rules are the same on both architectures:
//!
//! | step | rule |
//! |---|---|
//! | raised | an edge is latched, and consumed when it is sent; so a second one waits for the end of the first |
//! | sent | inactive becomes pending, and only then: an interrupt is never pending and active at a time |
//! | taken | the handler begins: pending becomes active |
//! | completed | inactive; then sent again if the level is still high or an edge is latched, and the pin not masked |
//!
//! Remote IRR with the bit `ACTIVE` encode the three states.

/// A source of a line. The line is up while any source holds it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Devices, and irqfds without a resamplefd.
    User,
    /// All irqfds with a resamplefd together.
    Resample,
}

impl Source {
    pub(super) const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// A bit for each [`Source`] that holds the line up.
const HELD: u32 = Source::User.bit() | Source::Resample.bit();
/// Remote IRR: a local APIC took the line's interrupt, and its EOI has not come.
pub(super) const REMOTE_IRR: u32 = 1 << 2;
/// An edge of a forwarded line whose interrupt has not been sent.
pub(super) const LATCHED: u32 = 1 << 3;
/// The handler of a forwarded line's interrupt has begun; means nothing without [`REMOTE_IRR`].
pub(super) const ACTIVE: u32 = 1 << 4;
/// The bits above count how often the line was driven.
pub(super) const DRIVEN: u32 = 1 << 8;

/// How far the interrupt of a forwarded line is.
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
    pub(super) fn is_held(self) -> bool {
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

    /// How far the interrupt of a forwarded line is; that of another line is never [`Activity::Active`].
    pub fn activity(self) -> Activity {
        match (self.has_remote_irr(), self.0 & ACTIVE != 0) {
            (false, _) => Activity::Inactive,
            (true, false) => Activity::Pending,
            (true, true) => Activity::Active,
        }
    }

    /// The state once the interrupt is sent: pending, and no edge is latched.
    pub(super) fn sent(self) -> Self {
        Self(self.0 & !(LATCHED | ACTIVE) | REMOTE_IRR)
    }
}
