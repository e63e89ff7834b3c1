//! A pin with its line: what driving it and ending its interrupt do. Any thread of either side calls it.
//!
//! A level pin sends once and waits for its EOI (remote IRR); if the line is still up then, it sends
//! again. An edge pin sends on each rise that finds it unmasked.

use super::line::State;
use super::{Entry, Line, Lines, Pin, Pins, Source};
use crate::event::Event;
use crate::lapic::Message;

/// How often sending is tried while others change the line. An honest one changes a few times for each
/// interrupt; a hostile sandbox, which can write the word all the time, is not waited for.
const TRIES: u32 = 64;

/// A pin with its line.
#[derive(Clone, Copy, Debug)]
pub struct Wire<'w> {
    /// What is sent when the line rises, and whom the EOI signals.
    pub pin: &'w Pin,
    /// Who holds the line up, and whether its interrupt waits for an EOI.
    pub line: &'w Line,
}

impl<'w> Wire<'w> {
    /// The wire with this number; none beyond the last.
    pub fn new(pins: &'w Pins, lines: &'w Lines, number: u8) -> Option<Self> {
        let number = usize::from(number);
        let (pin, line) = (pins.get(number)?, lines.get(number)?);
        Some(Self { pin, line })
    }

    /// All wires whose pin has this vector, with their numbers.
    pub fn with_vector(
        pins: &'w Pins,
        lines: &'w Lines,
        vector: u8,
    ) -> impl Iterator<Item = (u8, Self)> {
        let wires = pins.iter().zip(lines).map(|(pin, line)| Self { pin, line });
        (0_u8..)
            .zip(wires)
            .filter(move |(_, wire)| wire.pin.entry().vector() == vector)
    }

    /// A source holds the line up or lets it go. `deliver` says whether a local APIC took the message.
    pub fn drive(&self, source: Source, up: bool, mut deliver: impl FnMut(Message) -> bool) {
        let rose = self.line.hold(source, up);
        let entry = self.pin.entry();
        if entry.is_level() {
            // One that was up already may still have to be sent: nobody took it before.
            self.send_level(deliver);
        } else if rose
            && !entry.is_masked()
            && let Some(message) = entry.message()
        {
            // An edge that nobody takes is lost.
            let _ = deliver(message);
        }
    }

    /// Whether there is a level interrupt to send: the line is up, and the pin neither masked nor
    /// waiting for an EOI.
    pub fn may_send(&self) -> bool {
        self.sendable().is_some()
    }

    fn sendable(&self) -> Option<(State, Entry)> {
        let seen = self.line.look();
        // After the line: whoever changed the entry before that look is seen here.
        let entry = self.pin.entry();
        let sends = entry.is_level() && !entry.is_masked();
        (sends && seen.is_up() && !seen.waits_for_eoi()).then_some((seen, entry))
    }

    /// Sends the interrupt of a level line that is up, unless it is masked or waits for its EOI.
    pub fn send_level(&self, mut deliver: impl FnMut(Message) -> bool) {
        for _ in 0..TRIES {
            let Some((seen, entry)) = self.sendable() else {
                return;
            };
            let Some(message) = entry.message() else {
                return;
            };
            // Before it is delivered, or its EOI could come first.
            if self.line.begin(seen) && (deliver(message) || self.line.give_up(seen)) {
                return;
            }
        }
    }

    /// The end of this pin's interrupt. A resampled line goes down once for all its irqfds, a line that
    /// others hold up is sent again, and each resamplefd is signalled.
    pub fn end(&self, number: u8, by: &mut impl EndOfInterrupt) {
        by.note(Event::AckIrq);
        let is_resampled = self.pin.is_resampled();
        if is_resampled {
            by.note(Event::SetIrq);
            by.note(Event::IoapicSetIrq);
            self.line.hold(Source::Resample, false);
        }
        if self.pin.entry().is_level() {
            self.line.end();
            self.send_level(|message| by.deliver(message));
        }
        // Last: a full eventfd that blocks shall hold nobody else's interrupts.
        if is_resampled {
            by.resample(number, self.pin);
        }
    }
}

/// Whoever ends interrupts: the stub on a vCPU's thread, or the monitor.
pub trait EndOfInterrupt {
    /// Delivers to local APICs; whether one took it.
    fn deliver(&mut self, message: Message) -> bool;
    /// Signals the resamplefds of a pin.
    fn resample(&mut self, number: u8, pin: &Pin);
    /// Counts an event for the VM's exit counts.
    fn note(&mut self, event: Event);
}

/// A vector has left service: the end of the interrupt of each pin that has it.
pub fn end(pins: &Pins, lines: &Lines, vector: u8, by: &mut impl EndOfInterrupt) {
    for (number, wire) in Wire::with_vector(pins, lines, vector) {
        wire.end(number, by);
    }
}
