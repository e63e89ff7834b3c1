//! The events of the current task. While it replays, each step must match the next recorded event. After the recorded
//! events, each step adds an event.

use super::{Access, Search, State, Stop};
use crate::error::Error;
use crate::graph::{Compare, Event, INIT, Id, Kind, Order, Span, WIDTH};

/// How many callers of a hook are searched to name it.
const FRAMES: usize = 8;

impl Search {
    /// Records which code a replayed event comes from.
    fn record(&mut self, id: Id, site: usize) {
        let announced = &self.tasks[self.current].announced_by;
        if let Some(callers) = &mut self.callers {
            let announced = announced.first() == Some(&site);
            let found = if announced {
                self.tasks[self.current].announced_by.clone()
            } else {
                callers_of(site)
            };
            callers.insert(id, found);
        }
    }

    /// Waits until the current task may take its next step.
    pub(super) fn turn(&mut self) -> Result<(), Stop> {
        if self.over() || self.is_next(self.current) {
            return Ok(());
        }
        self.tasks[self.current].state = State::Behind;
        Err(Stop::Blocked)
    }

    /// Returns whether a task may take its next step: what it then replays, or adds after its last event, must not come
    /// after an event that another task has yet to replay.
    pub(super) fn is_next(&self, task: usize) -> bool {
        if !self.in_order {
            return true;
        }
        let cursor = self.tasks[task].cursor;
        let Some(&id) = self.graph.tasks[task].get(cursor) else {
            let mut tasks = self.tasks.iter().zip(&self.graph.tasks);
            return tasks.all(|(task, events)| task.cursor >= events.len());
        };
        let event = self.graph.event(id);
        event.kind != Kind::Read
            || event.span.range().all(|atom| {
                let source = self.graph.source(event, atom);
                let write = self.graph.event(source);
                source == INIT
                    || self.tasks[usize::from(write.task)].cursor > usize::from(write.index)
            })
    }

    /// Whether the execution ends here.
    pub(super) fn over(&self) -> bool {
        self.error.is_some() || self.refined || self.dropped
    }

    pub(super) fn event(
        &self,
        kind: Kind,
        order: Order,
        span: Span,
        value: u64,
        site: usize,
    ) -> Event {
        let task = u8::try_from(self.current).unwrap_or(u8::MAX);
        let mut event = Event {
            task,
            index: u16::try_from(self.graph.tasks[self.current].len()).unwrap_or(u16::MAX),
            prev: self.graph.last(task),
            kind,
            order,
            compare: None,
            exclusive: false,
            span,
            value,
            awaits: 0,
            rf: [0; WIDTH],
            chosen: [0; WIDTH],
            site,
            prefix: Default::default(),
            views: Default::default(),
        };
        event.prefix = self.graph.prefix_of(&event);
        event
    }

    pub(super) fn add(&mut self, event: Event) -> Id {
        let id = self.graph.push(event);
        self.pushed(id);
        id
    }

    /// Tells the model of an event of the current task that is in the graph, and counts it.
    fn pushed(&mut self, id: Id) {
        self.model.add(&mut self.graph, id);
        self.tasks[self.current].cursor += 1;
        if self.graph.events.len() > self.limits.events {
            let name = self.tasks[self.current].name.clone();
            self.error.get_or_insert(Error::TooManySteps {
                task: name,
                steps: self.limits.events,
            });
        }
    }

    /// Returns the value of the next recorded event, if the task still replays. The new event must match it.
    pub(super) fn replayed(
        &mut self,
        kind: Kind,
        span: Option<Span>,
        value: Option<u64>,
    ) -> Result<Option<u64>, Stop> {
        if self.over() {
            return Err(Stop::Ended);
        }
        let task = &self.tasks[self.current];
        let Some(&id) = self.graph.tasks[self.current].get(task.cursor) else {
            return Ok(None);
        };
        let event = self.graph.event(id);
        let same = event.kind == kind
            && span.is_none_or(|span| span == event.span)
            && value.is_none_or(|value| value == event.value);
        if !same {
            let now = format!("{kind:?} of offset {}", span.unwrap_or_default().offset);
            let error = self.diverged(self.current, &now);
            self.error.get_or_insert(error);
            return Err(Stop::Ended);
        }
        let (value, site) = (event.value, event.site);
        self.record(id, site);
        let is_read = kind == Kind::Read;
        let task = &mut self.tasks[self.current];
        task.cursor += 1;
        if is_read {
            task.reads.push(id);
        } else {
            task.reads.clear();
        }
        Ok(Some(value))
    }

    pub(super) fn fence_event(&mut self, order: Order, site: usize) -> Result<(), Stop> {
        if self.ending || !self.model.has_fence(order) {
            return Ok(());
        }
        self.turn()?;
        if self.replayed(Kind::Fence, None, None)?.is_some() {
            return Ok(());
        }
        self.tasks[self.current].reads.clear();
        let event = self.event(Kind::Fence, order, Span::default(), 0, site);
        self.add(event);
        Ok(())
    }

    /// The atoms of an access. If the access covers only part of an atom, the search begins again with a finer
    /// partition.
    fn span(&mut self, access: &Access) -> Result<Span, Stop> {
        if let Some(span) = self.atoms.span(access.offset, access.size) {
            return Ok(span);
        }
        self.atoms.split(access.offset);
        self.atoms.split(access.offset + u16::from(access.size));
        self.refined = true;
        Err(Stop::Ended)
    }

    fn direct(&self, access: &Access) -> u64 {
        let mut bytes = [0; 8];
        let (offset, size) = (usize::from(access.offset), usize::from(access.size));
        if offset + size <= self.mapping.len() {
            self.mapping.read(offset, &mut bytes[..size]);
        }
        u64::from_le_bytes(bytes)
    }

    pub(super) fn read(&mut self, access: Access, exclusive: bool) -> Result<u64, Stop> {
        if self.ending {
            return if access.awaits == 0 {
                Ok(self.direct(&access))
            } else {
                Err(Stop::Ended)
            };
        }
        let span = self.span(&access)?;
        self.turn()?;
        if let Some(value) = self.replayed(Kind::Read, Some(span), None)? {
            return Ok(value);
        }
        if access.awaits == 0 && !exclusive {
            self.lock(span)?;
            self.spin()?;
        }
        let mut event = self.event(Kind::Read, access.order, span, 0, access.site);
        event.exclusive = exclusive;
        event.awaits = access.awaits;
        event.compare = compare(&access, span);
        let mut options = Vec::new();
        let mut orders = [Some(event.order), None];
        if let Some(compare) = event.compare
            && compare.success != compare.failure
        {
            orders[1] = Some(compare.failure);
        }
        for order in orders.into_iter().flatten() {
            event.order = order;
            for rf in self.model.sources(&self.graph, &event) {
                event.rf = rf;
                event.value = self.graph.read_value(&event, &self.atoms, &self.initial);
                let fits = event
                    .compare
                    .is_none_or(|compare| compare.order(event.value) == order);
                if fits && (access.awaits == 0 || event.value & access.awaits != 0) {
                    event.prefix = self.graph.prefix_of(&event);
                    options.push(event.clone());
                }
            }
        }
        let mut options = options.into_iter();
        let Some(first) = options.next() else {
            self.tasks[self.current].state = State::Waits {
                offset: access.offset,
                mask: access.awaits,
            };
            return Err(Stop::Blocked);
        };
        for option in options {
            let mut other = self.graph.clone();
            let id = other.push(option);
            self.model.add(&mut other, id);
            self.work.push(other);
        }
        let value = first.value;
        let id = self.add(first);
        self.tasks[self.current].reads.push(id);
        Ok(value)
    }

    /// Whether a task that waits for a value could read it now.
    pub(super) fn could_wake(&self, task: usize, offset: u16, mask: u64) -> bool {
        let Some(span) = self.atoms.span(offset, 8) else {
            return true;
        };
        let id = u8::try_from(task).unwrap_or(u8::MAX);
        let mut event = self.event(Kind::Read, Order::AcqRel, span, 0, 0);
        event.task = id;
        event.index = u16::try_from(self.graph.tasks[task].len()).unwrap_or(u16::MAX);
        event.prev = self.graph.last(id);
        event.exclusive = true;
        self.model
            .sources(&self.graph, &event)
            .into_iter()
            .any(|rf| {
                event.rf = rf;
                self.graph.read_value(&event, &self.atoms, &self.initial) & mask != 0
            })
    }

    pub(super) fn write_event(
        &mut self,
        access: Access,
        value: u64,
        exclusive: bool,
    ) -> Result<(), Stop> {
        if self.ending {
            let (offset, size) = (usize::from(access.offset), usize::from(access.size));
            if offset + size <= self.mapping.len() {
                self.mapping.write(offset, &value.to_le_bytes()[..size]);
            }
            return Ok(());
        }
        let span = self.span(&access)?;
        let value = if access.size == 8 {
            value
        } else {
            value & ((1 << (8 * access.size)) - 1)
        };
        if !exclusive {
            self.turn()?;
        }
        if self
            .replayed(Kind::Write, Some(span), Some(value))?
            .is_some()
        {
            return Ok(());
        }
        self.tasks[self.current].reads.clear();
        let mut event = self.event(Kind::Write, access.order, span, value, access.site);
        event.exclusive = exclusive;
        self.revisit(&event);
        let mut places = self.model.places(&self.graph, &event).into_iter();
        let Some(first) = places.next() else {
            if span.atoms > 1 {
                // The task is stuck, and the execution does not count. But another task's write to a further atom may
                // still revisit what this task has read.
                self.tasks[self.current].state = State::Impossible;
                return Err(Stop::Blocked);
            }
            self.dropped = true;
            return Err(Stop::Ended);
        };
        for places in places {
            let mut other = self.graph.clone();
            let id = other.push(event.clone());
            other.place(id, &places);
            self.model.add(&mut other, id);
            self.work.push(other);
        }
        let id = self.graph.push(event);
        self.graph.place(id, &first);
        self.pushed(id);
        Ok(())
    }
}

/// What decides the order of a read. A compare-exchange of several atoms always has its success order: what a revisit
/// of one atom drops must follow from the sources of the other atoms, not from the order.
pub(super) fn compare(access: &Access, span: Span) -> Option<Compare> {
    let (expected, failure) = access.compare.filter(|_| span.atoms == 1)?;
    Some(Compare {
        expected,
        success: access.order,
        failure,
    })
}

/// The return addresses on the stack of the running task, from a hook's return address on.
pub(super) fn callers_of(site: usize) -> Vec<usize> {
    let mut found = Vec::new();
    backtrace::trace(|frame| {
        let address = frame.ip().addr();
        if address == site || !found.is_empty() {
            found.push(address);
        }
        found.len() < FRAMES
    });
    if found.is_empty() {
        found.push(site);
    }
    found
}
