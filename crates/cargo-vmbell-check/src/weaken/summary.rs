//! What all tests say about each site.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::mutants::{self, Mutant};
use super::record::{Record, text_of};

/// The result of all tests.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) models: Vec<String>,
    pub(super) sites: Vec<Site>,
    pub(super) mutants: Vec<Mutant>,
    /// The tests that were not weakened, with the reports of their scenarios.
    pub(super) refused: Vec<(String, String)>,
    /// Whether the assignment is minimal: false if a limit stopped the search while a site's order might still be too
    /// strong.
    pub(super) is_minimal: bool,
    pub(super) explorations: u64,
    pub(super) executions: u64,
}

/// One order in the code under test.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) place: Place,
    pub(super) order: Strength,
    pub(super) effects: BTreeMap<String, Effect>,
    /// The order of this site with which no test fails when all sites are weakened together.
    pub(super) together: Strength,
    /// The tests that fail with a weaker order.
    pub(super) needed_by: BTreeSet<String>,
}

/// A place in the code under test.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    pub(super) file: String,
    pub(super) line: u64,
    pub(super) function: String,
    pub(super) owner: String,
    /// The file's whole path.
    pub(super) path: String,
}

/// Where an order is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) source: Source,
    pub(super) operation: String,
    order: Strength,
}

/// What weaker orders of a site do under one model, in all tests.
#[derive(Debug, Default)]
pub(super) struct Effect {
    /// Whether a scenario reaches the site.
    is_reached: bool,
    /// Whether the model distinguishes the orders.
    is_weakened: bool,
    /// The weakest order that no scenario fails with.
    pub(super) least: Strength,
    /// The weakest order that no scenario fails with, if the orders with which a limit ended an exploration count as
    /// clean.
    least_shown: Strength,
    /// The first order with which a limit ended an exploration.
    pub(super) limit: Option<String>,
    /// The shortest trace of a weaker order.
    pub(super) breaks: Option<Break>,
}

/// A failure with a weaker order.
#[derive(Clone, Debug)]
pub(super) struct Break {
    pub(super) test: String,
    pub(super) order: String,
    pub(super) what: String,
    pub(super) trace: Vec<String>,
}

/// The strength of an order, as bits: acquire, release and sequential consistency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Strength(u8);

const NAMES: [(&str, u8); 5] = [
    ("Relaxed", 0),
    ("Acquire", 1),
    ("Release", 2),
    ("AcqRel", 3),
    ("SeqCst", 7),
];

impl Strength {
    pub(super) const SEQ_CST: Strength = Strength(7);

    pub(super) fn acquires(self) -> bool {
        self.0 & 1 != 0
    }

    pub(super) fn releases(self) -> bool {
        self.0 & 2 != 0
    }

    pub(super) fn of(name: &str) -> Strength {
        let found = NAMES.iter().find(|(other, _)| *other == name);
        // An unknown order counts as the strongest, so that it is noticed.
        Strength(found.map_or(7, |(_, bits)| *bits))
    }

    pub(super) fn name(self) -> &'static str {
        let found = NAMES.iter().find(|(_, bits)| *bits == self.0);
        found.map_or("SeqCst", |(name, _)| name)
    }

    fn join(&mut self, other: Strength) {
        self.0 |= other.0;
    }
}

impl Summary {
    pub(super) fn new(records: Vec<Record>) -> Summary {
        let mut summary = Summary {
            is_minimal: true,
            ..Summary::default()
        };
        let mut sites: BTreeMap<Place, Site> = BTreeMap::new();
        for record in records {
            summary.explorations += record.explorations;
            summary.executions += record.executions;
            summary.is_minimal &= record.is_minimal;
            for model in record.models {
                if !summary.models.contains(&model) {
                    summary.models.push(model);
                }
            }
            if let Some(report) = record.refused {
                summary.refused.push((record.test.clone(), report));
            }
            for value in &record.sites {
                let place = Place::new(value);
                let site = sites.entry(place).or_insert_with_key(Site::new);
                site.add(&record.test, value);
            }
            mutants::add(&mut summary.mutants, &record.test, &record.mutants);
        }
        summary.sites = sites.into_values().collect();
        let key = |mutant: &Mutant| (mutant.store.clone(), mutant.past.clone());
        summary.mutants.sort_by_cached_key(key);
        // Under sequential consistency orders make no difference, so this model has no column.
        let Summary { models, sites, .. } = &mut summary;
        models.retain(|model| {
            let mut effects = sites.iter().filter_map(|site| site.effects.get(model));
            sites.is_empty() || effects.any(|effect| effect.is_weakened)
        });
        summary
    }

    /// The sites of the code under test whose order is stronger than any test needs.
    pub(super) fn unneeded(&self) -> impl Iterator<Item = &Site> {
        self.sites.iter().filter(|site| site.is_unneeded())
    }

    /// The sites that only one test needs, by test.
    pub(super) fn alone(&self) -> BTreeMap<&str, Vec<&Site>> {
        let mut found: BTreeMap<&str, Vec<&Site>> = BTreeMap::new();
        for site in &self.sites {
            let mut tests = site.needed_by.iter();
            if let (Some(test), None) = (tests.next(), tests.next()) {
                found.entry(test).or_default().push(site);
            }
        }
        found
    }
}

impl Place {
    fn new(value: &Value) -> Place {
        Place {
            source: Source::new(value),
            operation: text_of(&value["operation"]),
            order: Strength::of(&text_of(&value["order"])),
        }
    }
}

impl Source {
    pub(super) fn new(value: &Value) -> Source {
        Source {
            file: text_of(&value["file"]),
            line: value["line"].as_u64().unwrap_or(0),
            function: text_of(&value["function"]),
            owner: text_of(&value["owner"]),
            path: text_of(&value["path"]),
        }
    }

    /// `FILE:LINE`, or the function without debug information.
    pub(super) fn name(&self) -> String {
        match self.line {
            _ if self.file.is_empty() => self.function.clone(),
            0 => self.file.clone(),
            line => format!("{}:{line}", self.file),
        }
    }

    /// The function, and whose code it is if it is not the code under test.
    pub(super) fn function(&self) -> String {
        match &*self.owner {
            "tested code" => self.function.clone(),
            owner => format!("{} ({owner})", self.function),
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "file": self.file,
            "line": self.line,
            "function": self.function,
            "owner": self.owner,
            "path": self.path,
        })
    }
}

impl Site {
    fn new(place: &Place) -> Site {
        Site {
            place: place.clone(),
            order: place.order,
            effects: BTreeMap::new(),
            together: Strength::default(),
            needed_by: BTreeSet::new(),
        }
    }

    fn add(&mut self, test: &str, value: &Value) {
        self.together
            .join(Strength::of(&text_of(&value["together"])));
        for (model, value) in value["effects"].as_object().into_iter().flatten() {
            let effect = self.effects.entry(model.clone()).or_default();
            if effect.add(test, value) {
                self.needed_by.insert(test.to_string());
            }
        }
    }

    /// Whether the site was weakened: code of the standard library is not.
    pub(super) fn is_weakened(&self) -> bool {
        !self.effects.is_empty()
    }

    pub(super) fn is_unneeded(&self) -> bool {
        let weakened = || self.effects.values().filter(|effect| effect.is_weakened);
        let mut least = Strength::default();
        weakened().for_each(|effect| least.join(effect.least));
        self.place.source.owner == "tested code"
            && weakened().next().is_some()
            && least != self.order
            // If either of two fences can replace the other, one of them is needed.
            && self.together != self.order
            && weakened().all(|effect| effect.limit.is_none())
    }

    /// The effect under a model in a few words.
    pub(super) fn in_words(&self, model: &str) -> String {
        let Some(effect) = self.effects.get(model).filter(|effect| effect.is_reached) else {
            return "not reached".to_string();
        };
        if !effect.is_weakened {
            return "no difference".to_string();
        }
        let (least, limit) = (effect.least, &effect.limit);
        match limit {
            _ if effect.least_shown == self.order => "needed".to_string(),
            Some(limit) if least == self.order => format!("limit at {limit}"),
            Some(limit) => format!("{} is enough, limit at {limit}", least.name()),
            None if least == Strength::default() => "not needed".to_string(),
            None => format!("{} is enough", least.name()),
        }
    }
}

impl Effect {
    /// Adds what one scenario says. Returns whether it needs more than the weakest order.
    fn add(&mut self, test: &str, value: &Value) -> bool {
        self.is_reached |= value != "not reached";
        let Some(least) = value["least"].as_str().map(Strength::of) else {
            return false;
        };
        self.is_weakened = true;
        self.least.join(least);
        let limit = value["limit"].as_str().map(str::to_string);
        if limit.is_none() {
            self.least_shown.join(least);
        }
        self.limit = self.limit.take().or(limit);
        let breaks = value["breaks"].as_array().into_iter().flatten();
        let mut fails = false;
        for value in breaks {
            fails = true;
            let trace = value["trace"].as_array().into_iter().flatten();
            let found = Break {
                test: test.to_string(),
                order: text_of(&value["order"]),
                what: text_of(&value["what"]),
                trace: trace.map(text_of).collect(),
            };
            let is_shorter = |old: &Break| found.trace.len() < old.trace.len();
            if self.breaks.as_ref().is_none_or(is_shorter) {
                self.breaks = Some(found);
            }
        }
        fails
    }
}

#[cfg(test)]
#[path = "summary_test.rs"]
mod tests;
