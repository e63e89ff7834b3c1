//! Makes a report's rows from the results of the boots.

use super::column::{BootColumn, BootRow, BootWay, CountedBatch};
use vmbell_report::{
    Counts, ExitReasons, Exits, Group, Measured, Outcome, Ratio, Row, Setting, Times, Timing,
};
use vmbell_statistics::bootstrap::ratio_of_boots;

/// The seed for the confidence intervals of ratios: the same samples give the same interval.
const SEED: u64 = 1;

/// A row, with the times of each boot separately.
struct RowOfBoots {
    row: Row,
    boots: Vec<Vec<f64>>,
}

/// The rows of all columns, with ratios to the first one that has results.
pub(super) fn rows<W: BootWay>(columns: &[BootColumn<W>], timing: Timing) -> Vec<Row> {
    let mut columns = columns.iter().filter(|column| !column.boots.is_empty());
    let Some(first) = columns.next() else {
        return Vec::new();
    };
    let references = of_column(first, timing);
    let mut others: Vec<RowOfBoots> = Vec::new();
    for column in columns {
        let is_compared = !first.is_emulated() && !column.is_emulated();
        for mut new in of_column(column, timing) {
            let mut old = references.iter();
            let old = old.find(|old| is_compared && old.row.command == new.row.command);
            if let Some(old) = old {
                compare(&mut new, old);
            }
            others.push(new);
        }
    }
    let all = references.into_iter().chain(others);
    all.map(|one| one.row).collect()
}

fn compare(new: &mut RowOfBoots, old: &RowOfBoots) {
    let Some(measured) = new.row.measured_mut() else {
        return;
    };
    let ratio = ratio_of_boots(&new.boots, &old.boots, SEED);
    measured.ratio = ratio.map(|ratio| Ratio {
        reference: format!("{} ({})", old.row.command, old.row.backend),
        value: ratio.value,
        ci_low: ratio.interval.map(|[low, _]| low),
        ci_high: ratio.interval.map(|[_, high]| high),
        is_bound: false,
    });
}

fn of_column<W: BootWay>(column: &BootColumn<W>, timing: Timing) -> Vec<RowOfBoots> {
    let first = column.boots.first().map_or(&[][..], |boot| &boot.rows);
    let row = |named: &BootRow| {
        let boots = column.boots.iter().flat_map(|boot| &boot.rows);
        let same: Vec<&BootRow> = boots.filter(|row| row.name == named.name).collect();
        let batches = || same.iter().filter_map(|row| row.batches.as_ref().ok());
        let boots: Vec<Vec<f64>> = batches().map(|batches| batches.ns.clone()).collect();
        let ops = batches().flat_map(|batches| batches.ns.iter().map(|_| batches.operations));
        let outcome = match Times::of(&boots.concat(), ops.collect()) {
            Some(times) => {
                let mut measured = Measured::of(times);
                add_counted(&mut measured, column, &same);
                Outcome::Measured(Box::new(measured))
            }
            None => {
                let mut reasons = same.iter().filter_map(|row| row.batches.as_ref().err());
                Outcome::Skipped {
                    reason: reasons.next().cloned(),
                }
            }
        };
        RowOfBoots {
            row: Row {
                command: named.name.clone(),
                description: named.description.clone(),
                group: Group::Scenario,
                backend: column.way.name().to_owned(),
                parameters: [].into(),
                setting: Setting::default(),
                timing_valid: timing == Timing::Native && !column.is_emulated(),
                reference: None,
                note: None,
                outcome,
            },
            boots,
        }
    };
    first.iter().map(row).collect()
}

/// Adds what was counted: in the boots themselves, or in a further boot.
fn add_counted<W>(measured: &mut Measured, column: &BootColumn<W>, same: &[&BootRow]) {
    let name = same.first().map_or("", |row| &row.name);
    let of_boots = same.iter().filter_map(|row| row.counted.as_ref());
    let further = column
        .counted
        .as_ref()
        .and_then(|counted| counted.as_ref().ok());
    let further = further.map(|rows| {
        let mut rows = rows.iter();
        let row = rows.find(|(other, _)| other == name);
        row.map_or(
            Err("the row had no numbers in the boot that counts"),
            |(_, row)| row.as_ref().map_err(String::as_str),
        )
    });
    // The further boot is used only if the boots themselves did not count.
    let further = further.filter(|_| same.iter().all(|row| row.counted.is_none()));
    let all = of_boots
        .map(|counted| counted.as_ref().map_err(String::as_str))
        .chain(further);
    let runs: Result<Vec<&Vec<CountedBatch>>, &str> = all.collect();
    match runs {
        Ok(runs) => {
            let runs: Vec<&CountedBatch> = runs.into_iter().flatten().collect();
            if !runs.is_empty() {
                add(measured, &runs);
            }
        }
        Err(reason) => measured.exits_note = Some(reason.to_owned()),
    }
}

fn add(measured: &mut Measured, runs: &[&CountedBatch]) {
    let caused: Vec<_> = runs
        .iter()
        .map(|run| run.reasons.caused(run.operations))
        .collect();
    let reasons: Vec<_> = runs
        .iter()
        .map(|run| (&run.reasons, run.operations))
        .collect();
    measured.exits = Exits::of(&caused);
    measured.exit_reasons = Some(ExitReasons::of(&reasons));
    let names = runs.first().map_or(&[][..], |run| &run.counts);
    let counts = names.iter().enumerate().map(|(place, (name, _))| {
        let of_run = |run: &&CountedBatch| run.counts.get(place).map(|(_, count)| *count);
        ((*name).to_owned(), runs.iter().filter_map(of_run).collect())
    });
    measured.counts = Counts::from_iter(counts);
    let names = runs.first().map_or(&[][..], |run| &run.events);
    let events = names.iter().map(|(name, _)| {
        let of_run = |run: &&CountedBatch| {
            let mut events = run.events.iter();
            events
                .find(|(other, _)| other == name)
                .map(|(_, count)| *count)
        };
        (name.clone(), runs.iter().filter_map(of_run).collect())
    });
    measured.events = Counts::from_iter(events);
}

#[cfg(test)]
#[path = "rows_test.rs"]
mod tests;
