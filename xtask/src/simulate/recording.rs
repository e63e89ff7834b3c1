//! The recorded turns, and simulated comparisons of some of them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::trial::Change;
use vmbell_report::compare::{CompareOptions, Comparison, Pairing, compare};
use vmbell_report::{Random, Report, Row};

/// A row by its name and backend.
pub(super) type Name = (String, String);

/// The turns of a recording: the two reports of each.
#[derive(Debug)]
pub(super) struct Recording {
    turns: Vec<[Report; 2]>,
    rows: Vec<Name>,
}

impl Recording {
    /// Reads `old-N.json` and `new-N.json` of every turn, in order.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let list = fs::read_dir(folder)
            .with_context(|| format!("cannot read the folder {}", folder.display()))?;
        let mut names = Vec::new();
        for entry in list {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        let mut turns = Vec::new();
        for name in names.iter().filter(|name| name.starts_with("old-")) {
            let read = |name: &str| {
                let path = folder.join(name);
                let text = fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                vmbell_report::parse(&text)
                    .with_context(|| format!("cannot use {}", path.display()))
            };
            turns.push([read(name)?, read(&name.replacen("old", "new", 1))?]);
        }
        let measured = |report: &Report| -> Vec<Name> {
            report
                .common
                .results
                .iter()
                .filter(|row| row.is_ok())
                .map(name)
                .collect()
        };
        let first = turns.first().context("there is no turn")?;
        let rows = measured(&first[0])
            .into_iter()
            .filter(|name| {
                turns
                    .iter()
                    .flatten()
                    .all(|report| measured(report).contains(name))
            })
            .collect();
        Ok(Self { turns, rows })
    }

    /// How many turns there are.
    pub(super) fn turns(&self) -> usize {
        self.turns.len()
    }

    /// The rows that every report has.
    pub(super) fn rows(&self) -> &[Name] {
        &self.rows
    }

    /// Compares so many consecutive turns from one of chance on, the sides of each exchanged by chance, with the change of one
    /// row on the new side.
    pub(super) fn compare(
        &self,
        turns: usize,
        change: Option<&Change>,
        random: &mut Random,
    ) -> Result<Comparison> {
        let from = random.below(self.windows(turns));
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for pair in &self.turns[from..from + turns] {
            let first = random.below(2);
            old.push(pair[first].clone());
            new.push(pair[1 - first].clone());
        }
        if let Some(change) = change {
            for row in new.iter_mut().flat_map(|report| &mut report.common.results) {
                if name(row) == change.row {
                    scale(row, change.factor);
                }
            }
        }
        Ok(compare(&old, &new, &options(random.next()))?)
    }

    /// How many ways there are to take so many consecutive turns.
    pub(super) fn windows(&self, turns: usize) -> usize {
        self.turns.len() - turns + 1
    }

    /// Compares so many consecutive turns from this one on, with the sides as they were recorded.
    pub(super) fn compare_as_recorded(&self, from: usize, turns: usize) -> Result<Comparison> {
        let turns = self.turns[from..from + turns].iter().cloned();
        let (old, new): (Vec<Report>, Vec<Report>) = turns.map(|[old, new]| (old, new)).unzip();
        Ok(compare(&old, &new, &options(from as u64))?)
    }
}

fn options(seed: u64) -> CompareOptions {
    CompareOptions {
        pairing: Pairing::Turns,
        seed,
        ..CompareOptions::default()
    }
}

fn name(row: &Row) -> Name {
    (row.command.clone(), row.backend.clone())
}

/// Multiplies the times of a row.
fn scale(row: &mut Row, factor: f64) {
    let Some(measured) = row.measured_mut() else {
        return;
    };
    for ns in &mut measured.times.samples {
        *ns *= factor;
    }
    measured.times.median *= factor;
}
