//! The orders that the code under test asks for, and what an exploration changes in them.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use super::events::callers_of;
use super::{Pair, Search};
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

/// What an exploration changes in the code under test.
#[derive(Clone, Debug)]
pub(crate) enum Changes {
    /// Nothing: the orders and the stores that could be moved are recorded.
    None,
    /// These orders are weaker.
    Weaker(HashMap<CallSite, Order>),
    /// Each of these stores is moved past the first of its later accesses that its task comes to.
    Swap(HashMap<CallSite, Vec<CallSite>>),
}

/// What weakening can change in the code under test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Met {
    /// The orders above relaxed.
    pub(crate) calls: BTreeSet<CallSite>,
    /// The stores, each with a later access that it can be moved past.
    pub(crate) pairs: BTreeSet<Pair>,
}

/// The orders that were met, and what is changed.
#[derive(Debug)]
pub(crate) struct Orders {
    met: BTreeSet<CallSite>,
    /// The pairs that were met, if they are recorded.
    pub(super) pairs: Option<BTreeSet<Pair>>,
    weakened: HashMap<CallSite, Order>,
    pub(super) swapped: HashMap<CallSite, Vec<CallSite>>,
    /// Whether an address is in a function that is not of a library.
    is_own: HashMap<usize, bool>,
    /// Whether all functions at an address are core's atomics.
    is_atomic: HashMap<usize, bool>,
}

impl Orders {
    pub(crate) fn new(changes: &Changes) -> Orders {
        let mut orders = Orders {
            met: BTreeSet::new(),
            pairs: None,
            weakened: HashMap::new(),
            swapped: HashMap::new(),
            is_own: HashMap::new(),
            is_atomic: HashMap::new(),
        };
        match changes {
            Changes::None => orders.pairs = Some(BTreeSet::new()),
            Changes::Weaker(weakened) => orders.weakened.clone_from(weakened),
            Changes::Swap(swapped) => orders.swapped.clone_from(swapped),
        }
        orders
    }

    pub(crate) fn into_met(self) -> Met {
        Met {
            calls: self.met,
            pairs: self.pairs.unwrap_or_default(),
        }
    }

    /// Whether accesses whose order cannot be weaker count as well.
    fn counts_relaxed(&self) -> bool {
        self.pairs.is_some() || !self.swapped.is_empty()
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

    /// The site of an operation of the code under test, if it can be changed.
    fn site(&mut self, operation: Operation, order: Order, hook: usize) -> Option<CallSite> {
        if hook == 0 || (order == Order::Relaxed && !self.counts_relaxed()) {
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
    /// The order that an operation of the code under test has in this exploration, and its site.
    pub(super) fn order(
        &mut self,
        operation: Operation,
        order: Order,
        hook: usize,
    ) -> (Order, Option<CallSite>) {
        let site = self.site(operation, order, hook);
        if let Some(site) = site {
            self.meet(site);
        }
        (site.map_or(order, |site| self.order_of(site)), site)
    }

    /// The site of an operation of the code under test, if it can be changed. Does not record the site as met.
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
        if let Some(orders) = &mut self.orders
            && site.order != Order::Relaxed
        {
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
