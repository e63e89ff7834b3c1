//! What a task does, from the hooks and the bells: reads, writes, read-modify-writes, fences and choices.

use std::mem;

use super::events::{callers_of, compare};
use super::{Access, Operation, Search, State, Stop, Wrong};
use crate::error::Error;
use crate::graph::{Kind, Order, Span};
use crate::guard;
use crate::model::SC_EVENTS;
use crate::watchdog;

impl Search {
    /// Reads a value, and writes the result of `change`, if there is one.
    pub(crate) fn update(
        &mut self,
        mut access: Access,
        change: impl FnOnce(u64) -> Option<u64>,
    ) -> Result<u64, Stop> {
        self.enter(access.site);
        self.before_access(&access, None)?;
        let value = match access.compare {
            Some((expected, _)) => self.read_to_compare(&mut access, expected)?,
            None => {
                access.order = self.order(Operation::Update, access.order, access.site).0;
                self.read(access, true)?
            }
        };
        if let Some(new) = change(value) {
            self.write_event(access, new, true)?;
        }
        self.after_access(&access, None)?;
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
        let call;
        (access.order, call) = self.order(operation, access.order, access.site);
        self.enter(access.site);
        self.before_access(&access, call)?;
        let value = self.read(access, false)?;
        self.after_access(&access, call)?;
        Ok(value)
    }

    pub(crate) fn store(&mut self, mut access: Access, value: u64) -> Result<(), Stop> {
        let call;
        (access.order, call) = self.order(Operation::Store, access.order, access.site);
        self.enter(access.site);
        self.write(access, value, call)
    }

    /// Begins a step that announces plain stores.
    pub(crate) fn begin_announcement(&mut self, site: usize) {
        self.enter(site);
        let call = self.site(Operation::Store, Order::Relaxed, site);
        self.tasks[self.current].announced_at = call;
        if self.callers.is_some() {
            self.tasks[self.current].announced_by = callers_of(site);
        }
    }

    /// Announces a plain store. Its value is in memory at the next step.
    pub(crate) fn announce(&mut self, access: Access) {
        if !self.ending {
            self.tasks[self.current].announced.push(access);
        }
    }

    pub(crate) fn fence(&mut self, order: Order, site: usize) -> Result<(), Stop> {
        let order = self.order(Operation::Fence, order, site).0;
        self.enter(site);
        self.fence_event(order, site)?;
        self.after_fence(order, site);
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
        self.tasks[self.current].reads.clear();
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
    pub(super) fn enter(&mut self, site: usize) {
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

    /// Completes a plain store. Its value has reached memory.
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
            let placed = self.write(access, value, self.tasks[task].announced_at);
            if self.tasks[task].state == State::Behind {
                break;
            }
            debug_assert!(placed.is_ok() || self.over(), "a store has a place");
            self.tasks[task].stored.remove(0);
        }
    }
}
