//! Drives a line of the I/O APIC, and does the EOI of its interrupt. Any thread of the monitor or the stub calls this.
//!
//! A level-triggered pin sends once and waits for the EOI (remote IRR). If the line is still up at the EOI, the pin
//! sends again. An edge-triggered pin sends each time the line rises, unless the pin is masked.
//!
//! The guest ends the interrupt of a forwarded line without an exit, by the bit of paravirtual EOI. Other
//! level-triggered interrupts never get that bit, because their lines wait for the EOI. The owner of a forwarded line
//! polls [`PinLine::has_ended`] instead. The host learns of the end at the vCPU's next exit. So a thread with another
//! interrupt for an active line makes that vCPU leave the guest ([`PinLine::needs_exit`]).

use super::{Activity, Line, LineState, Lines, Pin, Pins, RedirectionEntry, Source};
use crate::event::Event;
use crate::lapic::Message;

/// How often a send is tried while other threads change the line. An honest line changes a few times per interrupt; the
/// bound keeps a hostile sandbox, which can write the word all the time, from delaying a thread forever.
const TRIES: u32 = 64;

/// A pin of the I/O APIC with its input line.
#[derive(Clone, Copy, Debug)]
pub struct PinLine<'w> {
    /// The pin: its redirection entry and resamplefds.
    pub pin: &'w Pin,
    /// The line: its sources and remote IRR.
    pub line: &'w Line,
}

impl<'w> PinLine<'w> {
    /// The pin with this number and its line; `None` if the number is too large.
    pub fn new(pins: &'w Pins, lines: &'w Lines, number: u8) -> Option<Self> {
        let number = usize::from(number);
        let (pin, line) = (pins.get(number)?, lines.get(number)?);
        Some(Self { pin, line })
    }

    /// All pins whose redirection entry has this vector, with their numbers and lines.
    pub fn with_vector(
        pins: &'w Pins,
        lines: &'w Lines,
        vector: u8,
    ) -> impl Iterator<Item = (u8, Self)> {
        let pin_lines = pins.iter().zip(lines).map(|(pin, line)| Self { pin, line });
        (0_u8..)
            .zip(pin_lines)
            .filter(move |(_, pin_line)| pin_line.pin.entry().vector() == vector)
    }

    /// Makes a source hold the line up or let it go. `deliver` returns whether a local APIC took the message.
    pub fn drive(&self, source: Source, up: bool, mut deliver: impl FnMut(Message) -> bool) {
        let rose = self.line.set_source(source, up);
        let entry = self.pin.entry();
        if entry.is_level() {
            // Done even if the line was already up, because perhaps no local APIC accepted its interrupt.
            self.send_level(deliver);
        } else if rose
            && !entry.is_masked()
            && let Some(message) = entry.message()
        {
            // An edge that no local APIC accepts is lost.
            let _ = deliver(message);
        }
    }

    /// Whether there is a level interrupt to send: the line is up, and the pin is level-triggered, not masked and
    /// not waiting for an EOI.
    pub fn may_send(&self) -> bool {
        self.sendable().is_some()
    }

    fn sendable(&self) -> Option<(LineState, RedirectionEntry)> {
        let seen = self.line.snapshot();
        // Loaded after the line's state, so that an earlier change of the entry is seen here.
        let entry = self.pin.entry();
        let sends = entry.is_level() && !entry.is_masked();
        (sends && seen.is_up() && !seen.has_remote_irr()).then_some((seen, entry))
    }

    /// Sends the interrupt of a level-triggered pin whose line is up, unless it is masked or waits for an EOI.
    pub fn send_level(&self, mut deliver: impl FnMut(Message) -> bool) {
        for _ in 0..TRIES {
            let Some((seen, entry)) = self.sendable() else {
                return;
            };
            let Some(message) = entry.message() else {
                return;
            };
            // Remote IRR is set before the delivery: otherwise the EOI could come first.
            if self.line.set_remote_irr(seen)
                && (deliver(message) || self.line.undo_remote_irr(seen))
            {
                return;
            }
        }
    }

    /// Does the EOI of this pin's interrupt: makes all irqfds with a resamplefd let the line go, sends the interrupt
    /// again if other sources hold the line up, and signals each resamplefd.
    pub fn eoi(&self, number: u8, actions: &mut impl EoiActions) {
        actions.count(Event::AckIrq);
        let is_resampled = self.pin.is_resampled();
        if is_resampled {
            actions.count(Event::SetIrq);
            actions.count(Event::IoapicSetIrq);
            self.line.set_source(Source::Resample, false);
        }
        if self.pin.entry().is_level() {
            self.line.clear_remote_irr();
            self.send_level(|message| actions.deliver(message));
        }
        // This comes last, because a write to a full eventfd may block, and must not delay other interrupts.
        if is_resampled {
            actions.resample(number, self.pin);
        }
    }
}

/// What an EOI needs from its environment: the stub on a vCPU's thread, or the monitor.
pub trait EoiActions {
    /// Delivers a message to the local APICs; returns whether one accepted it.
    fn deliver(&mut self, message: Message) -> bool;
    /// Signals the resamplefds of pin `number`.
    fn resample(&mut self, number: u8, pin: &Pin);
    /// Counts an event.
    fn count(&mut self, event: Event);
}

/// Does the EOI of each pin whose redirection entry has `vector`. The vector has left service.
pub fn eoi_pins(pins: &Pins, lines: &Lines, vector: u8, actions: &mut impl EoiActions) {
    for (number, pin_line) in PinLine::with_vector(pins, lines, vector) {
        pin_line.eoi(number, actions);
    }
}

impl PinLine<'_> {
    /// Raises a forwarded line: sends its interrupt. If an interrupt is under way or the pin is masked, as it is until
    /// the guest sets it up, latches the edge instead. `deliver` returns whether a local APIC took the message. If the
    /// guest has made the pin edge-triggered, the edge is sent and counts as ended at once.
    pub fn raise(&self, mut deliver: impl FnMut(Message) -> bool) {
        let entry = self.pin.entry();
        if !entry.sends_edges() {
            self.line.latch();
            self.send_level(deliver);
        } else if let Some(message) = entry.message() {
            let _ = deliver(message);
        }
    }

    /// Called when the handler of the line's interrupt begins: makes a forwarded line active. Returns whether the guest
    /// may end the interrupt without an exit.
    pub fn begin_service(&self) -> bool {
        if !self.pin.is_forwarded() {
            return false;
        }
        let state = self.line.begin_service();
        // Checked again: if another thread stops forwarding the line at the same time, one of the two threads sees the
        // other's change.
        !state.is_up() && self.pin.is_forwarded() && !self.pin.is_resampled()
    }

    /// Whether another interrupt waits for a forwarded line while the guest may end the current one without an exit. If
    /// so, the vCPU with the current interrupt has to leave the guest. Called after the line was raised or is no longer
    /// forwarded.
    pub fn needs_exit(&self) -> bool {
        let state = self.line.snapshot();
        let is_owed = state.is_up() || !self.pin.is_forwarded();
        is_owed && state.activity() == Activity::Active
    }

    /// Whether all interrupts of a forwarded line have ended. `ended_by_bit` returns whether a guest has ended the
    /// vector in service by its PV EOI bit.
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

/// Called when the handler of a level-triggered `vector` begins: makes the interrupts of its forwarded lines active.
/// Returns whether the guest may end them without an exit: only forwarded lines have the vector, and none of them has
/// another interrupt.
pub fn begin_service(pins: &Pins, lines: &Lines, vector: u8) -> bool {
    let mut may_defer = None;
    for (_, pin_line) in PinLine::with_vector(pins, lines, vector) {
        let is_free = pin_line.begin_service();
        may_defer = Some(may_defer.unwrap_or(true) && is_free);
    }
    may_defer.unwrap_or(false)
}
