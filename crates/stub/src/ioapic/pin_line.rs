//! Driving a line of the I/O APIC, and the EOI of its interrupt. Any thread of the monitor or the stub calls this.
//!
//! A level-triggered pin sends once and waits for its EOI (remote IRR); if the line is still up then, it sends
//! again. An edge-triggered pin sends at each rise of the line, unless it is masked.

use super::{Line, LineState, Lines, Pin, Pins, RedirectionEntry, Source};
use crate::event::Event;
use crate::lapic::Message;

/// How often a send is tried while others change the line. An honest line changes a few times for each
/// interrupt; the bound keeps a hostile sandbox, which can write the word all the time, from holding a thread up.
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
    /// The pin with this number and its line; `None` if there is no such pin.
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

    /// A source holds the line up or lets it go. `deliver` says whether a local APIC took the message.
    pub fn drive(&self, source: Source, up: bool, mut deliver: impl FnMut(Message) -> bool) {
        let rose = self.line.set_source(source, up);
        let entry = self.pin.entry();
        if entry.is_level() {
            // Even if the line was up before: its interrupt may not have been accepted by a local APIC.
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
        // Loaded after the line's state, so that a change of the entry before that is seen here.
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

    /// Does the EOI of this pin's interrupt: takes the line down for all irqfds with a resamplefd, sends the
    /// interrupt again if other sources hold the line up, and signals each resamplefd.
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
        // Last: a write to a full eventfd may block, and must not delay the interrupts of others.
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

/// Does the EOI of each pin whose redirection entry has `vector`, which has left service.
pub fn eoi_pins(pins: &Pins, lines: &Lines, vector: u8, actions: &mut impl EoiActions) {
    for (number, pin_line) in PinLine::with_vector(pins, lines, vector) {
        pin_line.eoi(number, actions);
    }
}
