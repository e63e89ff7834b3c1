//! What a task does, from the hooks and the bells: reads, writes, read-modify-writes, fences and choices.
//!
//! While a task replays its recorded events, each call must match the next of them. Beyond them, it adds an event.

use std::mem;

use super::{Access, Operation, Search, State, Stop, Wrong};
use crate::error::Error;
use crate::graph::{Compare, Event, INIT, Id, Kind, Order, Span, WIDTH};
use crate::guard;
use crate::model::SC_EVENTS;
use crate::watchdog;

/// How many callers of a hook are searched to name it.
const FRAMES: usize = 8;

impl Search {
    /// Reads a value, and writes what `change` makes of it, if anything.
    pub(crate) fn update(
        &mut self,
        mut access: Access,
        change: impl FnOnce(u64) -> Option<u64>,
    ) -> Result<u64, Stop> {
        let value = match access.compare {
            Some((expected, _)) => self.read_to_compare(&mut access, expected)?,
            None => {
                access.order = self.order(Operation::Update, access.order, access.site);
                self.read(access, true)?
            }
        };
        if let Some(new) = change(value) {
            self.write_event(access, new, true)?;
        }
        Ok(value)
    }

    /// The read of a compare-exchange. Of the orders on success and on failure, only the one that applies to the value
    /// counts as used.
    fn read_to_compare(&mut self, access: &mut Access, expected: u64) -> Result<u64, Stop> {
        let success = self.site(Operation::Success, access.order, access.site);
        access.order = success.map_or(access.order, |site| self.order_of(site));
        let mut on_failure = None;
        if let Some((_, order)) = &mut access.compare {
            on_failure = self.site(Operation::Failure, *order, access.site);
            *order = on_failure.map_or(*order, |site| self.order_of(site));
        }
        let value = self.read(*access, true)?;
        let is_of_failure = value != expected
            && self
                .atoms
                .span(access.offset, access.size)
                .is_some_and(|span| compare(access, span).is_some());
        let met = if is_of_failure { on_failure } else { success };
        if let Some(site) = met {
            self.meet(site);
        }
        Ok(value)
    }

    /// Returns whether a weak compare-exchange at this place fails for no reason: at most once in an execution.
    pub(crate) fn fails_spuriously(&mut self, site: usize) -> Result<bool, Stop> {
        if self.ending || self.tasks[self.current].failed.contains(&site) {
            return Ok(false);
        }
        let fails = self.choose(2)? == 1;
        if fails {
            self.tasks[self.current].failed.push(site);
        }
        Ok(fails)
    }

    pub(crate) fn load(&mut self, access: Access) -> Result<u64, Stop> {
        self.load_of(Operation::Load, access)
    }

    /// The load of a compare-exchange that fails for no reason.
    pub(crate) fn load_spuriously(&mut self, access: Access) -> Result<u64, Stop> {
        self.load_of(Operation::Failure, access)
    }

    fn load_of(&mut self, operation: Operation, mut access: Access) -> Result<u64, Stop> {
        access.order = self.order(operation, access.order, access.site);
        self.read(access, false)
    }

    pub(crate) fn store(&mut self, mut access: Access, value: u64) -> Result<(), Stop> {
        access.order = self.order(Operation::Store, access.order, access.site);
        self.enter(access.site);
        self.write_event(access, value, false)
    }

    /// Begins a step that announces plain stores.
    pub(crate) fn begin_announcement(&mut self, site: usize) {
        self.enter(site);
        if self.callers.is_some() {
            self.tasks[self.current].announced_by = callers_of(site);
        }
    }

    /// Announces a plain store, whose value is in memory at the next step.
    pub(crate) fn announce(&mut self, access: Access) {
        if !self.ending {
            self.tasks[self.current].announced.push(access);
        }
    }

    pub(crate) fn fence(&mut self, order: Order, site: usize) -> Result<(), Stop> {
        let order = self.order(Operation::Fence, order, site);
        self.enter(site);
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

    /// Chooses one of `options` values. The search tries each value.
    pub(crate) fn choose(&mut self, options: u8) -> Result<u64, Stop> {
        self.enter(0);
        if self.ending {
            return Err(Stop::Ended);
        }
        self.turn()?;
        if let Some(value) = self.replayed(Kind::Choice(options), None, None)? {
            return Ok(value);
        }
        for value in (1..u64::from(options)).rev() {
            let event = self.event(
                Kind::Choice(options),
                Order::Relaxed,
                Span::default(),
                value,
                0,
            );
            let mut other = self.graph.clone();
            let id = other.push(event);
            self.model.add(&mut other, id);
            self.work.push(other);
        }
        let event = self.event(Kind::Choice(options), Order::Relaxed, Span::default(), 0, 0);
        self.add(event);
        Ok(0)
    }

    /// Records a claim of the scenario that does not hold.
    pub(crate) fn claim(&mut self, text: String) {
        if !self.ending {
            self.wrong.get_or_insert(Wrong::Claim(text));
        }
    }

    /// Begins a step of the current task.
    fn enter(&mut self, site: usize) {
        self.hooked += u64::from(site != 0);
        guard::forbid();
        watchdog::step();
        let task = &mut self.tasks[self.current];
        let path = (task.site, site);
        task.site = site;
        if site != 0 && !self.ending && !self.strict && self.paths.insert(path) {
            self.new_path = true;
        }
        self.complete_store(self.current);
        // A step adds at most one sequentially consistent event.
        if self.graph.sc.len() >= SC_EVENTS {
            self.error
                .get_or_insert(Error::TooManyFences { limit: SC_EVENTS });
        }
    }

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

    /// Completes a plain store, whose value is in memory now.
    pub(super) fn complete_store(&mut self, task: usize) {
        for access in mem::take(&mut self.tasks[task].announced) {
            let mut bytes = [0; 8];
            let size = usize::from(access.size);
            self.mapping
                .read(usize::from(access.offset), &mut bytes[..size]);
            let value = u64::from_le_bytes(bytes);
            self.tasks[task].stored.push((access, value));
        }
        while let Some(&(access, value)) = self.tasks[task].stored.first() {
            // A write that is not a read-modify-write always has a place.
            let placed = self.write_event(access, value, false);
            if self.tasks[task].state == State::Behind {
                break;
            }
            debug_assert!(placed.is_ok() || self.over(), "a store has a place");
            self.tasks[task].stored.remove(0);
        }
    }

    /// Waits until the current task may take its next step.
    fn turn(&mut self) -> Result<(), Stop> {
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

    fn event(&self, kind: Kind, order: Order, span: Span, value: u64, site: usize) -> Event {
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

    fn add(&mut self, event: Event) -> Id {
        let id = self.graph.push(event);
        self.model.add(&mut self.graph, id);
        self.tasks[self.current].cursor += 1;
        if self.graph.events.len() > self.limits.events {
            let name = self.tasks[self.current].name.clone();
            self.error.get_or_insert(Error::TooManySteps {
                task: name,
                steps: self.limits.events,
            });
        }
        id
    }

    /// Returns the value of the next recorded event, if the task still replays: this event must match it.
    fn replayed(
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

    /// The atoms of an access. If it divides one, the search begins again with a finer partition.
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

    fn read(&mut self, access: Access, exclusive: bool) -> Result<u64, Stop> {
        self.enter(access.site);
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

    fn write_event(&mut self, access: Access, value: u64, exclusive: bool) -> Result<(), Stop> {
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
        self.model.add(&mut self.graph, id);
        self.tasks[self.current].cursor += 1;
        if self.graph.events.len() > self.limits.events {
            let name = self.tasks[self.current].name.clone();
            self.error.get_or_insert(Error::TooManySteps {
                task: name,
                steps: self.limits.events,
            });
        }
        Ok(())
    }
}

/// What decides the order of a read. A compare-exchange of several atoms always has its order on success: what a
/// revisit of one atom drops must follow from the sources of the other atoms, not from the order.
fn compare(access: &Access, span: Span) -> Option<Compare> {
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
