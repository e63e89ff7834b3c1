//! Who waits for which EOI (Linux `ioapic_handled_vectors`): each pin is told its resamplefds, each local
//! APIC the vectors whose EOI the guest must not be spared.
//!
//! It runs under the owner's lock after each change of routes, pins or irqfds. The stub reads what it
//! says meanwhile.

use stub::lapic::{Lapic, Message};

use super::controller::{Controller, LocalApics, Resample};
use crate::irq::Target;

/// The pin whose EOI is always watched: the real-time clock's (Linux `RTC_GSI`).
const RTC_PIN: u8 = 8;

impl<R: Resample> Controller<R> {
    /// Says anew who waits for which EOI.
    pub(super) fn watch(&self, apics: &impl LocalApics) {
        for (number, pin) in (0_u8..).zip(apics.pins()) {
            let descriptors: Vec<_> = self.resamplers(number).map(R::descriptor).collect();
            pin.set_resamplers(&descriptors);
        }
        let messages: Vec<_> = self.watched_messages(apics).collect();
        for lapic in apics.lapics() {
            watch_vectors(lapic, &messages);
        }
    }

    /// What level pins send, resampled ones (as the pins were told before) and the clock's, and messages
    /// that are levels.
    fn watched_messages(&self, apics: &impl LocalApics) -> impl Iterator<Item = Message> {
        let pins = (0_u8..).zip(apics.pins());
        let of_pins = pins.filter_map(|(number, pin)| {
            let message = pin.entry().message()?;
            let is_watched = message.level || number == RTC_PIN || pin.is_resampled();
            is_watched.then_some(message)
        });
        let of_routes = self
            .routing
            .routes()
            .filter_map(|route| match route.target {
                Target::Msi(msi) => msi.message().ok().filter(|message| message.level),
                Target::Pin(_) => None,
            });
        of_pins.chain(of_routes)
    }
}

/// A vector that is on its way or in service stays watched until its end.
fn watch_vectors(lapic: &Lapic, messages: &[Message]) {
    let mut wanted = [false; 256];
    let is_for_it = |message: &&Message| message.destination.includes(lapic);
    for message in messages.iter().filter(is_for_it) {
        wanted[usize::from(message.vector)] = true;
        lapic.watched.insert(message.vector);
    }
    for vector in lapic.watched.iter() {
        let is_under_way = lapic.irr.contains(vector) || lapic.is_in_service(vector);
        if !wanted[usize::from(vector)] && !is_under_way {
            lapic.watched.remove(vector);
        }
    }
}
