//! The controller's part of forwarded lines: which GSIs are forwarded, and their owners' raises and looks. The rules of
//! the line are those of [`stub::ioapic`]; the owner's thread runs this, under the controller's lock.

use stub::ioapic::PinLine;

use super::controller::{Apics, Controller};
use vmbell::irq::{Gsi, IrqError, Target};

impl Controller {
    /// Forwards a line.
    pub fn forward_line(&mut self, gsi: Gsi, apics: &Apics<'_>) -> Result<(), IrqError> {
        let pin_line = self.line_of(gsi, apics).ok_or(IrqError::NoLine { gsi })?;
        if pin_line.pin.entry().sends_edges() {
            return Err(IrqError::Edge { gsi });
        }
        if self.resampled().any(|(other, _)| other == gsi) {
            return Err(IrqError::Resampled { gsi });
        }
        if !self.forwarded.insert(gsi) {
            return Err(IrqError::Forwarded { gsi });
        }
        self.scan(apics);
        Ok(())
    }

    /// Takes the forwarding of a line back. A vCPU that may end the present interrupt without an exit leaves the guest,
    /// so that it does not.
    pub fn unforward_line(&mut self, gsi: Gsi, apics: &Apics<'_>) {
        if !self.forwarded.remove(&gsi) {
            return;
        }
        self.scan(apics);
        if let Some(pin_line) = self.line_of(gsi, apics) {
            apics.end_deferral(pin_line);
        }
    }

    /// The owner raises the line. A GSI that leads to a message by now sends it.
    pub fn raise_forwarded(&self, gsi: Gsi, apics: &Apics<'_>) {
        if !self.forwarded.contains(&gsi) {
            return;
        }
        if let Some(pin_line) = self.line_of(gsi, apics) {
            apics.count_line();
            pin_line.raise(|message| apics.deliver(message));
            apics.end_deferral(pin_line);
        } else if let Some(Target::Msi(msi)) = self.routing.target(gsi) {
            // The messages of the table were checked when it was set, so there is no error.
            let _ = apics.signal_msi(msi);
        }
    }

    /// Whether all interrupts of the line have ended. `ended_by_bit` says whether a guest has ended a vector by its PV
    /// EOI bit.
    pub fn has_ended(
        &self,
        gsi: Gsi,
        apics: &Apics<'_>,
        ended_by_bit: impl FnOnce(u8) -> bool,
    ) -> bool {
        let pin_line = self.line_of(gsi, apics);
        pin_line.is_none_or(|pin_line| pin_line.has_ended(ended_by_bit))
    }

    /// The pin that a GSI leads to.
    fn line_of<'s>(&self, gsi: Gsi, apics: &Apics<'s>) -> Option<PinLine<'s>> {
        match self.routing.target(gsi)? {
            Target::Pin(pin) => apics.pin_line(pin),
            Target::Msi(_) => None,
        }
    }
}
