//! The counts of a guest's events. The stub and the monitor each count the events that happen on their side;
//! any thread reads them.

use std::io;
use std::sync::Arc;

use stub::event::Event;

use super::vm::UsermodeGuest;
use vmbell_hypervisor::measure::{EventCounter, EventCounts};

/// Adds the counts of the vCPUs' run pages and of the monitor's irqchip.
#[derive(Debug)]
pub struct Events(pub(super) Arc<UsermodeGuest>);

impl EventCounter for Events {
    fn source(&self) -> &str {
        "the engine, where each event happens"
    }

    fn exits(&self) -> &str {
        Event::Exit.name()
    }

    fn read(&mut self) -> io::Result<EventCounts> {
        let count = |event: Event| {
            let runs = self.0.sandbox.shared.runs.iter();
            let all = runs.map(|run| run.counters.events.get(event));
            let below = all.fold(0, u64::wrapping_add);
            let interrupts = self.0.interrupts.as_ref();
            let above = interrupts.map_or(0, |interrupts| interrupts.events.get(event));
            (event.name().to_owned(), below.wrapping_add(above))
        };
        Ok(Event::ALL.into_iter().map(count).collect())
    }
}
