//! A forwarded line: the guest ends its interrupt without an exit, and the device looks whether it has ended.
//!
//! The guest ends the interrupt by the bit of paravirtual EOI, which a level-triggered interrupt otherwise never gets,
//! because somebody waits for its EOI. The owner of a forwarded line does not wait: it looks
//! ([`PinLine::has_ended`]). The host learns of the end at the vCPU's next exit, so whoever has another interrupt for
//! a line that is active makes that vCPU leave the guest ([`PinLine::needs_exit`]). The states are those of
//! [`LineState`](super::LineState). Threads of the monitor raise the line and look; vCPU threads take and end its
//! interrupts.

use super::{Activity, Lines, PinLine, Pins};
use crate::lapic::Message;

impl PinLine<'_> {
    /// Raises a forwarded line: sends its interrupt, or latches the edge if one is under way or the pin is masked,
    /// as it is before the guest has set it up. `deliver` says whether a local APIC took the message. If the guest has made
    /// the pin edge-triggered, the edge is sent and has ended at once.
    pub fn raise(&self, mut deliver: impl FnMut(Message) -> bool) {
        let entry = self.pin.entry();
        if !entry.sends_edges() {
            self.line.latch();
            self.send_level(deliver);
        } else if let Some(message) = entry.message() {
            let _ = deliver(message);
        }
    }

    /// The handler of the line's interrupt begins: makes it active if the line is forwarded. Returns whether the guest
    /// may end it without an exit.
    pub fn begin_service(&self) -> bool {
        if !self.pin.is_forwarded() {
            return false;
        }
        let state = self.line.begin_service();
        // Looked at again: of a thread that takes the forwarding back and this one, one sees the other's change.
        !state.is_up() && self.pin.is_forwarded() && !self.pin.is_resampled()
    }

    /// Whether there is another interrupt for a forwarded line whose guest may end the present one without an exit:
    /// then the vCPU with that one has to leave the guest. Asked after the line was raised or ceased to be forwarded.
    pub fn needs_exit(&self) -> bool {
        let state = self.line.snapshot();
        let is_owed = state.is_up() || !self.pin.is_forwarded();
        is_owed && state.activity() == Activity::Active
    }

    /// Whether all interrupts of a forwarded line have ended. `ended_by_bit` says whether a guest has ended the vector
    /// in service by its PV EOI bit.
    pub fn has_ended(&self, ended_by_bit: impl FnOnce(u8) -> bool) -> bool {
        let (state, entry) = (self.line.state(), self.pin.entry());
        if entry.sends_edges() {
            return true;
        }
        if state.is_up() {
            return false;
        }
        match state.activity() {
            Activity::Inactive => true,
            Activity::Pending => false,
            Activity::Active => ended_by_bit(entry.vector()),
        }
    }
}

/// The handler of a level-triggered `vector` begins: makes the interrupts of its forwarded lines active. Returns
/// whether the guest may end them without an exit, because only forwarded lines have the vector and none has another
/// interrupt.
pub fn begin_service(pins: &Pins, lines: &Lines, vector: u8) -> bool {
    let mut may_defer = None;
    for (_, pin_line) in PinLine::with_vector(pins, lines, vector) {
        let is_free = pin_line.begin_service();
        may_defer = Some(may_defer.unwrap_or(true) && is_free);
    }
    may_defer.unwrap_or(false)
}
