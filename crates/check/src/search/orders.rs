//! The orders that the code under test asks for, and those that count as weaker in an exploration.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use super::Search;
use super::events::callers_of;
use crate::code::{Frame, Origin, frames};
use crate::graph::Order;

/// What an order belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// An atomic load.
    Load,
    /// An atomic store.
    Store,
    /// A read-modify-write.
    Update,
    /// A compare-exchange that finds the expected value.
    Success,
    /// A compare-exchange that finds another value.
    Failure,
    /// A fence.
    Fence,
}

/// An order in the code under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CallSite {
    /// The return address of the hook.
    pub(crate) hook: usize,
    /// The return address in the first function that is not one of core's atomics: it tells whose operation it is. At
    /// opt-level 0 no atomic is inlined.
    pub(crate) caller: usize,
    /// The return address in the first function that is not of a library: it tells the callers of the function apart.
    pub(crate) own: usize,
    pub(crate) operation: Operation,
    pub(crate) order: Order,
}

/// The orders above relaxed that were met, and those that are replaced.
#[derive(Debug)]
pub(crate) struct Orders {
    pub(crate) met: BTreeSet<CallSite>,
    weakened: HashMap<CallSite, Order>,
    /// Whether an address is in a function that is not of a library.
    is_own: HashMap<usize, bool>,
    /// Whether all functions at an address are core's atomics.
    is_atomic: HashMap<usize, bool>,
}

impl Orders {
    pub(crate) fn new(weakened: HashMap<CallSite, Order>) -> Orders {
        Orders {
            met: BTreeSet::new(),
            weakened,
            is_own: HashMap::new(),
            is_atomic: HashMap::new(),
        }
    }

    fn is_own(&mut self, address: usize) -> bool {
        *self.is_own.entry(address).or_insert_with(|| {
            let frames = frames(address);
            frames.is_empty() || frames.iter().any(|frame| frame.origin == Origin::Own)
        })
    }

    fn is_atomic(&mut self, address: usize) -> bool {
        *self.is_atomic.entry(address).or_insert_with(|| {
            let frames = frames(address);
            !frames.is_empty() && frames.iter().all(Frame::is_atomic)
        })
    }

    /// The site of an operation of the code under test, if its order can be weaker.
    fn site(&mut self, operation: Operation, order: Order, hook: usize) -> Option<CallSite> {
        if hook == 0 || order == Order::Relaxed {
            return None;
        }
        let (mut caller, mut own) = (hook, hook);
        if !self.is_own(hook) {
            let callers = callers_of(hook);
            let found = callers.iter().find(|&&address| self.is_own(address));
            own = found.copied().unwrap_or(hook);
            let found = callers.iter().find(|&&address| !self.is_atomic(address));
            caller = found.copied().unwrap_or(hook);
        }
        Some(CallSite {
            hook,
            caller,
            own,
            operation,
            order,
        })
    }

    /// The order that a site has in this exploration.
    fn of(&self, site: CallSite) -> Order {
        self.weakened.get(&site).copied().unwrap_or(site.order)
    }
}

impl Search {
    /// The order that an operation of the code under test has in this exploration.
    pub(super) fn order(&mut self, operation: Operation, order: Order, hook: usize) -> Order {
        match self.site(operation, order, hook) {
            Some(site) => {
                self.meet(site);
                self.order_of(site)
            }
            None => order,
        }
    }

    /// The site of an operation of the code under test, if orders are recorded or weakened. It is not met yet.
    pub(super) fn site(
        &mut self,
        operation: Operation,
        order: Order,
        hook: usize,
    ) -> Option<CallSite> {
        match &mut self.orders {
            Some(orders) if !self.ending => orders.site(operation, order, hook),
            _ => None,
        }
    }

    /// The order that a site has in this exploration.
    pub(super) fn order_of(&self, site: CallSite) -> Order {
        match &self.orders {
            Some(orders) => orders.of(site),
            None => site.order,
        }
    }

    /// Records that an operation used the order of a site.
    pub(super) fn meet(&mut self, site: CallSite) {
        if let Some(orders) = &mut self.orders {
            orders.met.insert(site);
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Operation::Load => "load",
            Operation::Store => "store",
            Operation::Update => "update",
            Operation::Success => "compare-exchange, success",
            Operation::Failure => "compare-exchange, failure",
            Operation::Fence => "fence",
        })
    }
}
