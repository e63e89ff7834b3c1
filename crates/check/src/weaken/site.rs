//! The sites of the code under test whose order can be weakened.

use std::collections::BTreeMap;

use super::Effect;
use super::source::{Source, Sources};
use crate::graph::Order;
use crate::model::Model;
use crate::search::{CallSite, Operation};

/// An order in the code under test, and what weakening it does.
#[derive(Debug)]
pub struct Site {
    /// Where the order is.
    pub source: Source,
    /// What the order belongs to.
    pub operation: Operation,
    /// The order that the code asks for.
    pub order: Order,
    /// What a weaker order does, under each model that has memory orders.
    pub effects: Vec<(Model, Effect)>,
    pub(super) calls: Vec<CallSite>,
}

/// Names the sites and sorts them by line.
pub(super) fn sites(calls: impl IntoIterator<Item = CallSite>, sources: &Sources<'_>) -> Vec<Site> {
    let mut found: BTreeMap<_, Vec<CallSite>> = BTreeMap::new();
    for call in calls {
        if sources.is_chosen(call) {
            let (place, owner, path) = sources.key(call);
            let key = (place, (call.operation, call.order, owner, path));
            found.entry(key).or_default().push(call);
        }
    }
    found
        .into_iter()
        .map(|((place, (operation, order, owner, path)), calls)| Site {
            source: Source::new((place, owner, path)),
            operation,
            order,
            effects: Vec::new(),
            calls,
        })
        .collect()
}
