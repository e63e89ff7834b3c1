//! The result of weakening as text: a table of the sites, and their traces.

use std::fmt;

use super::{Effect, Owner, Site, Weakening};
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
        let mut row = vec![site.place(), site.function.clone()];
        row.push(format!("{} {:?}", site.operation, site.order));
        match &site.owner {
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

impl fmt::Display for Weakening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = table(self);
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            // The text about a site that is not weakened spans the other columns.
            let cells = rows.iter().filter(|row| row.len() == columns || column < 3);
            let cells = cells.filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line += &format!("{cell:width$}  ");
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        if self.sites.iter().any(|site| site.file.is_empty()) {
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
                let (place, function) = (self.place(), &self.function);
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
