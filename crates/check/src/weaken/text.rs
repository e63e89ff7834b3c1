//! The result of weakening as text: tables of the sites and of the order mutants, and their traces.

use std::fmt;

use super::{Effect, Mutant, Outcome, Owner, Site, Weakening};
use crate::graph::Order;
use crate::model::Model;

impl Effect {
    /// The effect of weakening an order in a few words.
    pub fn in_words(&self, order: Order) -> String {
        match *self {
            Effect::NotReached => "not reached".to_string(),
            Effect::NoDifference => "no difference".to_string(),
            Effect::Weakened {
                least,
                limit: Some(limit),
                ..
            } if least == order => format!("limit at {limit:?}"),
            Effect::Weakened { least, .. } if least == order => "needed".to_string(),
            Effect::Weakened {
                least,
                limit: Some(limit),
                ..
            } => format!("{least:?} is enough, limit at {limit:?}"),
            Effect::Weakened {
                least: Order::Relaxed,
                ..
            } => "not needed".to_string(),
            Effect::Weakened { least, .. } => format!("{least:?} is enough"),
        }
    }
}

/// The headings and the rows of the table.
fn table(weakening: &Weakening) -> Vec<Vec<String>> {
    let mut head: Vec<String> = ["site", "function", "order"].map(String::from).to_vec();
    head.extend(weakening.models.iter().map(Model::to_string));
    head.push("together".to_string());
    let mut rows = vec![head];
    let least = weakening.minimal.orders.iter();
    for (site, least) in weakening.sites.iter().zip(least) {
        let mut row = vec![site.source.place(), site.source.function.clone()];
        row.push(format!("{} {:?}", site.operation, site.order));
        match &site.source.owner {
            Owner::Standard(name) => row.push(format!("not weakened: {name}")),
            owner => {
                let effects = site.effects.iter();
                row.extend(effects.map(|(_, effect)| effect.in_words(site.order)));
                row.push(format!("{least:?}"));
                if *owner == Owner::Scenario {
                    row[1] += " (scenario)";
                }
            }
        }
        rows.push(row);
    }
    rows
}

/// The headings and the rows of the table of order mutants.
fn table_of_mutants(weakening: &Weakening) -> Vec<Vec<String>> {
    let mut head: Vec<String> = ["store", "function", "moved past", "function"]
        .map(String::from)
        .to_vec();
    head.extend(weakening.models.iter().map(Model::to_string));
    let rows = weakening.mutants.iter().map(|mutant| {
        let (store, past) = (&mutant.store, &mutant.past);
        let mut row = vec![store.place(), store.function.clone()];
        row.push(format!("{} {}", mutant.operation, past.place()));
        row.push(past.function.clone());
        let outcomes = mutant.outcomes.iter();
        row.extend(outcomes.map(|(_, outcome)| outcome.in_words().to_string()));
        row
    });
    std::iter::once(head).chain(rows).collect()
}

/// Aligns the columns. In a shorter row, the cell in the column `wide` spans the remaining columns.
fn write_table(f: &mut fmt::Formatter<'_>, rows: &[Vec<String>], wide: usize) -> fmt::Result {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows
            .iter()
            .filter(|row| row.len() == columns || column < wide);
        let cells = cells.filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line += &format!("{cell:width$}  ");
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

impl fmt::Display for Weakening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_table(f, &table(self), 3)?;
        if !self.mutants.is_empty() {
            writeln!(f)?;
            write_table(f, &table_of_mutants(self), 4)?;
        }
        if self.sites.iter().any(|site| site.source.file.is_empty()) {
            writeln!(
                f,
                "A site without a line has no debug information: compile it with line tables (-g in C)."
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Site {
    /// The failures one step below the weakest clean order, with their traces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (model, effect) in &self.effects {
            let Effect::Weakened { breaks, .. } = effect else {
                continue;
            };
            for weaker in breaks {
                let (place, function) = (self.source.place(), &self.source.function);
                let (operation, order) = (self.operation, weaker.order);
                writeln!(
                    f,
                    "{place}, {function}, {operation} {order:?} under {model}: {}",
                    weaker.failure.what
                )?;
                writeln!(f, "{}", weaker.failure)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Mutant {
    /// The failures, with their traces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (model, outcome) in &self.outcomes {
            if let Outcome::Found(Some(failure)) = outcome {
                let (store, past) = (self.store.place(), self.past.place());
                let (operation, what) = (self.operation, &failure.what);
                writeln!(
                    f,
                    "store {store} past the {operation} {past} under {model}: {what}"
                )?;
                writeln!(f, "{failure}")?;
            }
        }
        Ok(())
    }
}
