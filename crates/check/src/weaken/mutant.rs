//! Order mutants: a store is moved past a later access of its task, and the scenario is explored again.
//!
//! Unlike a weaker order, a mutant can fail under every model. Each model allows all that the models before it allow,
//! so a mutant that fails under one model also fails under the models after it.

use std::collections::{BTreeMap, HashMap};

use super::source::{Source, Sources};
use super::{Tried, Work};
use crate::error::Error;
use crate::model::Model;
use crate::report::Failure;
use crate::search::{CallSite, Changes, Met, Operation, Pair};

/// A store in the code under test that is moved past a later access of the same task.
#[derive(Debug)]
pub struct Mutant {
    /// Where the store is.
    pub store: Source,
    /// Where the access is.
    pub past: Source,
    /// The access: a store or a load.
    pub operation: Operation,
    /// Whether the code orders the two: the access publishes the store, or a SeqCst fence is between them. If not, a
    /// compiler may exchange them.
    pub is_ordered: bool,
    /// The outcome of the mutant under each model.
    pub outcomes: Vec<(Model, Outcome)>,
    pairs: Vec<Pair>,
}

/// The outcome of an order mutant under one model.
#[derive(Debug)]
pub enum Outcome {
    /// No execution reaches both accesses.
    NotReached,
    /// An execution fails. `None` if a stronger model already shows it.
    Found(Option<Failure>),
    /// All executions were explored, and none failed.
    NotFound,
    /// A limit ended the exploration.
    Limit,
}

impl Outcome {
    /// The outcome in a few words.
    pub fn in_words(&self) -> &'static str {
        match self {
            Outcome::NotReached => "not reached",
            Outcome::Found(_) => "found",
            Outcome::NotFound => "not found",
            Outcome::Limit => "limit",
        }
    }
}

/// Names the mutants and sorts them by line.
pub(super) fn mutants<'a>(
    met: impl IntoIterator<Item = &'a Met>,
    sources: &Sources<'_>,
) -> Vec<Mutant> {
    let mut found: BTreeMap<_, Vec<Pair>> = BTreeMap::new();
    for &pair in met.into_iter().flat_map(|met| &met.pairs) {
        if sources.is_chosen(pair.store) || sources.is_chosen(pair.past) {
            let key = (sources.key(pair.store), sources.key(pair.past));
            found
                .entry((key, pair.past.operation))
                .or_default()
                .push(pair);
        }
    }
    found
        .into_iter()
        .filter(|(((store, past), _), _)| store != past)
        .map(|(((store, past), operation), mut pairs)| {
            pairs.sort_unstable();
            pairs.dedup();
            Mutant {
                store: Source::new(store),
                past: Source::new(past),
                operation,
                is_ordered: pairs.iter().any(|pair| pair.is_ordered),
                outcomes: Vec::new(),
                pairs,
            }
        })
        .filter(|mutant| mutant.store.is_changed() && mutant.past.is_changed())
        .collect()
}

impl Work<'_> {
    /// Explores a mutant under each model.
    pub(super) fn mutate(
        &mut self,
        mutant: &Mutant,
        met: &[(Model, Met)],
    ) -> Result<Vec<(Model, Outcome)>, Error> {
        let mut fails_under: Option<Model> = None;
        let mut outcomes = Vec::new();
        for (model, met) in met {
            let outcome = if !mutant.pairs.iter().any(|pair| met.pairs.contains(pair)) {
                Outcome::NotReached
            } else if fails_under.is_some_and(|strong| strong <= *model) {
                Outcome::Found(None)
            } else {
                let changes = Changes::Swap(mutant.swapped());
                match self.explore(*model, &changes, || mutant.in_words())? {
                    Tried::Clean => Outcome::NotFound,
                    Tried::Fails(failure) => {
                        fails_under = Some(*model);
                        Outcome::Found(Some(failure))
                    }
                    Tried::Limit => Outcome::Limit,
                }
            };
            outcomes.push((*model, outcome));
        }
        Ok(outcomes)
    }
}

impl Mutant {
    fn swapped(&self) -> HashMap<CallSite, Vec<CallSite>> {
        let mut swapped: HashMap<CallSite, Vec<CallSite>> = HashMap::new();
        for pair in &self.pairs {
            swapped.entry(pair.store).or_default().push(pair.past);
        }
        swapped
    }

    fn in_words(&self) -> String {
        let (store, past, operation) = (self.store.place(), self.past.place(), self.operation);
        format!("the store at {store} past the {operation} at {past}")
    }

    /// Whether a model shows the mutant.
    pub fn is_found(&self) -> bool {
        let mut outcomes = self.outcomes.iter();
        outcomes.any(|(_, outcome)| matches!(outcome, Outcome::Found(_)))
    }
}
