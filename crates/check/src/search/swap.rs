//! Order mutants: a store that is moved past a later access of its task.
//!
//! An exploration of the code as it is records the pairs. A store is moved past the next store, and past the store that
//! publishes it: one that releases, or that follows a fence. The last store before a SeqCst fence is moved past the
//! first load after the fence. In the exploration of a mutant the store is held back. It becomes an event after its
//! partner, where it was if the task takes another path, or where the task begins to spin.

use std::collections::BTreeSet;

use super::{Access, CallSite, Operation, Search, Stop};
use crate::graph::Order;

/// A store, and the later store or load of the same task that it is moved past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) store: CallSite,
    pub(crate) past: CallSite,
    /// Whether the code orders them: the access publishes the store, or a fence is between them.
    pub(crate) is_ordered: bool,
}

/// The stores of a task that its next access may be paired with.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// The stores since the last store that publishes; none of these stores publishes.
    unpublished: Vec<(CallSite, Access)>,
    /// The last store, if no load follows it.
    last: Option<(CallSite, Access)>,
    /// Whether a fence that releases follows the last store.
    is_released: bool,
    /// Whether a SeqCst fence follows the last store.
    is_fenced: bool,
}

/// A store that is held back.
#[derive(Debug)]
pub(super) struct Held {
    access: Access,
    value: u64,
    /// The accesses that the store is moved past: stores, or else loads.
    past: Vec<CallSite>,
    /// The fences that the task has passed since.
    fences: Vec<(Order, usize)>,
}

impl Access {
    fn overlaps(&self, other: &Access) -> bool {
        let end = |access: &Access| access.offset + u16::from(access.size);
        self.offset < end(other) && other.offset < end(self)
    }
}

impl Window {
    fn store(&mut self, call: CallSite, access: Access, pairs: &mut BTreeSet<Pair>) {
        let publishes = access.order.releases() || self.is_released;
        let is_unpublished = |(last, _): &(CallSite, Access)| {
            let mut stores = self.unpublished.iter();
            stores.any(|(store, _)| store == last)
        };
        let mut partners: Vec<(CallSite, Access)> = self.last.into_iter().collect();
        if publishes {
            partners.append(&mut self.unpublished);
        } else {
            partners.retain(is_unpublished);
        }
        let partners = partners.iter();
        let apart = partners.filter(|(store, at)| *store != call && !at.overlaps(&access));
        pairs.extend(apart.map(|&(store, _)| Pair {
            store,
            past: call,
            is_ordered: publishes,
        }));
        if !publishes {
            self.unpublished.push((call, access));
        }
        self.last = Some((call, access));
        (self.is_released, self.is_fenced) = (false, false);
    }

    fn load(&mut self, call: CallSite, access: Access, pairs: &mut BTreeSet<Pair>) {
        if let Some((store, at)) = self.last.take_if(|_| self.is_fenced)
            && !at.overlaps(&access)
        {
            pairs.insert(Pair {
                store,
                past: call,
                is_ordered: true,
            });
        }
    }

    fn fence(&mut self, order: Order) {
        self.is_released |= order.releases();
        self.is_fenced |= order == Order::SeqCst;
    }
}

impl Search {
    /// Puts the held store where it was if the access that follows may not come before it.
    pub(super) fn before_access(
        &mut self,
        access: &Access,
        call: Option<CallSite>,
    ) -> Result<(), Stop> {
        let Some(held) = &self.tasks[self.current].held else {
            return Ok(());
        };
        let is_bell = usize::from(access.offset) >= self.mapping.len();
        let fences = || held.fences.iter().map(|(order, _)| *order);
        let is_past = |call| held.past.contains(&call);
        let past_store = held
            .past
            .iter()
            .any(|past| past.operation == Operation::Store);
        let is_last = match call.map(|call| call.operation) {
            _ if call.is_some_and(is_past) => false,
            // The task may wait for what another task does after the store.
            Some(Operation::Load) if self.repeats_reads() => true,
            Some(Operation::Load) if past_store => false,
            Some(Operation::Load) => fences().any(|order| order == Order::SeqCst),
            Some(Operation::Store) if past_store => {
                access.order.releases() || fences().any(Order::releases)
            }
            _ => true,
        };
        if is_bell || is_last || held.access.overlaps(access) {
            self.put_back()?;
        }
        Ok(())
    }

    /// Notes an access that has become an event. A held store follows the partner that it is moved past.
    pub(super) fn after_access(
        &mut self,
        access: &Access,
        call: Option<CallSite>,
    ) -> Result<(), Stop> {
        let task = &mut self.tasks[self.current];
        let is_past = |held: &mut Held| call.is_some_and(|call| held.past.contains(&call));
        if let Some(held) = task.held.take_if(is_past) {
            return self.write_event(held.access, held.value, false);
        }
        let window = &mut self.tasks[self.current].window;
        let pairs = self
            .orders
            .as_mut()
            .and_then(|orders| orders.pairs.as_mut());
        if let (Some(pairs), false) = (pairs, self.ending) {
            match call {
                Some(call) if call.operation == Operation::Store => {
                    window.store(call, *access, pairs);
                }
                Some(call) if call.operation == Operation::Load => {
                    window.load(call, *access, pairs);
                }
                _ => *window = Window::default(),
            }
        }
        Ok(())
    }

    /// A store by the code under test, which a mutant holds back.
    pub(super) fn write(
        &mut self,
        access: Access,
        value: u64,
        call: Option<CallSite>,
    ) -> Result<(), Stop> {
        self.before_access(&access, call)?;
        let swapped = self.orders.as_ref().map(|orders| &orders.swapped);
        let past = swapped
            .zip(call)
            .and_then(|(swapped, call)| swapped.get(&call));
        if let Some(past) = past.cloned() {
            self.put_back()?;
            self.tasks[self.current].held = Some(Held {
                access,
                value,
                past,
                fences: Vec::new(),
            });
            return Ok(());
        }
        self.write_event(access, value, false)?;
        self.after_access(&access, call)
    }

    /// Notes a fence of the current task.
    pub(super) fn after_fence(&mut self, order: Order, site: usize) {
        let task = &mut self.tasks[self.current];
        task.window.fence(order);
        if let Some(held) = &mut task.held {
            held.fences.push((order, site));
        }
    }

    /// Makes the held store an event, and repeats the fences that the task has passed since: they still follow it.
    pub(super) fn put_back(&mut self) -> Result<(), Stop> {
        let Some(held) = self.tasks[self.current].held.take() else {
            return Ok(());
        };
        self.write_event(held.access, held.value, false)?;
        for (order, site) in held.fences {
            self.fence_event(order, site)?;
        }
        Ok(())
    }
}
