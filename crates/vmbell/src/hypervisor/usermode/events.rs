//! The events of a guest of ours, counted by the stub and by the monitor where they happen.

use std::io;
use std::sync::Arc;

use stub::event::Event;

use super::super::{EventCounter, EventCounts};
use super::vm::Guest;

/// Adds up what the vCPUs' pages and the monitor say.
#[derive(Debug)]
pub struct Events(pub(super) Arc<Guest>);

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
