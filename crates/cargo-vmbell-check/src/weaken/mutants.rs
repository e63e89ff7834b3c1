//! What all tests say about each order mutant: a store moved past a later access.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::record::text_of;
use super::summary::Source;

/// A store that was moved past a later access of its task.
#[derive(Debug)]
pub(super) struct Mutant {
    pub(super) store: Source,
    pub(super) past: Source,
    /// The access: a store or a load.
    pub(super) operation: String,
    /// Whether the code orders the two. If not, a compiler may exchange them.
    pub(super) is_ordered: bool,
    pub(super) outcomes: BTreeMap<String, Outcome>,
    pub(super) found_by: BTreeSet<String>,
}

/// The outcome of a mutant under one model, ordered from the weakest statement to the strongest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MutantResult {
    #[default]
    NotReached,
    NotFound,
    Limit,
    Found,
}

const WORDS: [(&str, MutantResult); 4] = [
    ("not reached", MutantResult::NotReached),
    ("not found", MutantResult::NotFound),
    ("limit", MutantResult::Limit),
    ("found", MutantResult::Found),
];

impl MutantResult {
    pub(super) fn in_words(self) -> &'static str {
        let found = WORDS.iter().find(|(_, result)| *result == self);
        found.map_or("", |(words, _)| words)
    }
}

/// The outcome under one model in all tests.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) result: MutantResult,
    /// The shortest trace.
    pub(super) breaks: Option<Break>,
}

#[derive(Debug)]
pub(super) struct Break {
    pub(super) test: String,
    pub(super) what: String,
    pub(super) trace: Vec<String>,
}

/// Merges the mutants of a record.
pub(super) fn add(mutants: &mut Vec<Mutant>, test: &str, values: &[Value]) {
    for value in values {
        let (store, past) = (Source::new(&value["store"]), Source::new(&value["past"]));
        let operation = text_of(&value["operation"]);
        let is_same =
            |old: &Mutant| (&old.store, &old.past, &old.operation) == (&store, &past, &operation);
        let at = mutants.iter().position(is_same).unwrap_or_else(|| {
            mutants.push(Mutant {
                store,
                past,
                operation,
                is_ordered: false,
                outcomes: BTreeMap::new(),
                found_by: BTreeSet::new(),
            });
            mutants.len() - 1
        });
        mutants[at].add(test, value);
    }
}

impl Mutant {
    fn add(&mut self, test: &str, value: &Value) {
        self.is_ordered |= value["is_ordered"].as_bool().unwrap_or(true);
        for (model, value) in value["outcomes"].as_object().into_iter().flatten() {
            let outcome = self.outcomes.entry(model.clone()).or_default();
            let words = text_of(&value["result"]);
            let known = WORDS.iter().find(|(name, _)| *name == words);
            // An unknown word counts as a limit, from which nothing is concluded.
            let result = known.map_or(MutantResult::Limit, |(_, result)| *result);
            outcome.result = outcome.result.max(result);
            if result == MutantResult::Found {
                self.found_by.insert(test.to_string());
            }
            let breaks = &value["breaks"];
            if breaks.is_object() {
                let trace = breaks["trace"].as_array().into_iter().flatten();
                let found = Break {
                    test: test.to_string(),
                    what: text_of(&breaks["what"]),
                    trace: trace.map(text_of).collect(),
                };
                let is_shorter = |old: &Break| found.trace.len() < old.trace.len();
                if outcome.breaks.as_ref().is_none_or(is_shorter) {
                    outcome.breaks = Some(found);
                }
            }
        }
    }

    pub(super) fn in_words(&self, model: &str) -> &'static str {
        self.outcomes
            .get(model)
            .map_or(MutantResult::NotReached, |outcome| outcome.result)
            .in_words()
    }

    /// Whether the code orders the two, and all executions were explored without finding it.
    pub(super) fn is_missed(&self) -> bool {
        let mut results = self.outcomes.values().map(|outcome| outcome.result);
        self.is_ordered
            && self.found_by.is_empty()
            && results
                .clone()
                .any(|result| result == MutantResult::NotFound)
            && results.all(|result| result != MutantResult::Limit)
    }

    /// The mutant in a line.
    pub(super) fn describe(&self) -> String {
        let (store, past) = (&self.store, &self.past);
        let (of_store, of_past) = (store.function(), past.function());
        let operation = &self.operation;
        format!(
            "{}, {of_store}, store past the {operation} {}, {of_past}",
            store.name(),
            past.name()
        )
    }

    /// The traces, one for each model that has its own.
    pub(super) fn traces(&self) -> impl Iterator<Item = String> {
        self.outcomes.iter().filter_map(|(model, outcome)| {
            let Break { test, what, trace } = outcome.breaks.as_ref()?;
            let lines: String = trace.iter().map(|line| format!("    {line}\n")).collect();
            let (store, past) = (self.store.name(), self.past.name());
            let operation = &self.operation;
            Some(format!(
                "store {store} past the {operation} {past}: under {model}, {test}: {what}\n{lines}"
            ))
        })
    }

    pub(super) fn json(&self) -> Value {
        let outcomes = self.outcomes.iter().map(|(model, outcome)| {
            let breaks = outcome.breaks.as_ref().map(
                |found| json!({ "test": found.test, "what": found.what, "trace": found.trace }),
            );
            let value = json!({ "result": outcome.result.in_words(), "breaks": breaks });
            (model.clone(), value)
        });
        json!({
            "store": self.store.json(),
            "past": self.past.json(),
            "operation": self.operation,
            "is_ordered": self.is_ordered,
            "outcomes": outcomes.collect::<Map<String, Value>>(),
            "found_by": self.found_by,
        })
    }
}
