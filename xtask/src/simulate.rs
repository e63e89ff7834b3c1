//! `cargo xtask simulate FOLDER`: how often `vmbell compare` is wrong, by simulation on recorded noise.
//!
//! The folder has the turns of a `vmbell bench --interleave` of a program with itself (`--keep-turns`), so nothing changed in
//! them and every difference is noise of the host. A simulated comparison takes consecutive turns, as a real one has them,
//! exchanges the sides of some by chance, and, where a change is to be found, slows one row of the new side down. What is
//! counted is how many comparisons have a false alarm, and in how many the change is found. The exchange is what the test of
//! turns assumes, so false alarms are counted with the sides as they were recorded, too, on all windows of consecutive turns.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};

use vmbell_report::compare::{CompareOptions, ComparedRow, Comparison, Pairing, Verdict, compare};
use vmbell_report::{Random, Report, Row};

/// How many turns a simulated comparison has.
const TURNS: [usize; 3] = [16, 24, 40];
/// How many comparisons of each kind are simulated.
const TRIALS: usize = 1000;
/// Changes of one row that are to be found, none among them.
const CHANGES: [Option<f64>; 3] = [None, Some(1.05), Some(1.10)];
/// The threshold of `--fail-above` that is counted.
const THRESHOLD: f64 = 0.05;
const SEED: u64 = 1;

/// A row by its name and backend.
type Name = (String, String);
/// The two reports of a turn.
type Turn = [Report; 2];

/// The comparisons of one kind.
#[derive(Debug, Default)]
struct Tally {
    comparisons: usize,
    alarms: usize,
    failures: usize,
    /// For each row, how often it was changed and how often the change was found.
    changed: BTreeMap<Name, (usize, usize)>,
}

/// Simulates comparisons on the turns in the folder and prints what they found.
pub(super) fn run(folder: &Path) -> Result<()> {
    let turns = read(folder)?;
    let most = TURNS.into_iter().max().unwrap_or_default();
    ensure!(
        turns.len() > most,
        "{} has {} turns, and more than {most} are needed",
        folder.display(),
        turns.len()
    );
    let rows = rows(&turns);
    println!(
        "{} turns of {} rows, {TRIALS} comparisons of each kind\n",
        turns.len(),
        rows.len()
    );
    for count in TURNS {
        let mut tally = Tally::default();
        for (from, window) in turns.windows(count).enumerate() {
            let (old, new) = window.iter().cloned().map(|[old, new]| (old, new)).unzip();
            tally.add(&compared(old, new, from as u64)?, None);
        }
        println!(
            "{count} turns with the sides as recorded: a false alarm in {} of {} windows",
            tally.alarms, tally.comparisons
        );
    }
    println!(
        "\n| turns | change of one row | comparisons with a false alarm | with one above 5 % | change found |\n\
         |---|---|---|---|---|"
    );
    let kinds = TURNS
        .map(|count| CHANGES.map(|factor| (count, factor)))
        .concat();
    let tallies: Vec<Result<Tally>> = thread::scope(|scope| {
        let (turns, rows) = (&turns, &rows);
        let start = |&(count, factor)| scope.spawn(move || simulate(turns, rows, count, factor));
        let threads: Vec<_> = kinds.iter().map(start).collect();
        let panicked = |_| Err(anyhow!("a simulation panicked"));
        let threads = threads.into_iter();
        threads
            .map(|thread| thread.join().unwrap_or_else(panicked))
            .collect()
    });
    let mut missed =
        "\nrows whose change was found in fewer than 95 % of their comparisons:\n".to_owned();
    for ((count, factor), tally) in kinds.into_iter().zip(tallies) {
        let tally = tally?;
        let change = factor.map_or_else(
            || "none".to_owned(),
            |factor| format!("{:+.0} %", (factor - 1.0) * 100.0),
        );
        let changed = tally.changed.values().map(|count| count.0).sum();
        let found = tally.changed.values().map(|count| count.1).sum();
        println!(
            "| {count} | {change} | {} | {} | {} |",
            percent(tally.alarms, tally.comparisons),
            percent(tally.failures, tally.comparisons),
            percent(found, changed),
        );
        for ((row, backend), (of, part)) in tally.changed {
            if part * 100 < of * 95 {
                let share = percent(part, of);
                missed += &format!("  {count} turns, {change}: {row} ({backend}) {share}\n");
            }
        }
    }
    print!("{missed}");
    Ok(())
}

/// Reads `old-N.json` and `new-N.json` of every turn, in order.
fn read(folder: &Path) -> Result<Vec<Turn>> {
    let mut names = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let read = |name: &str| {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).map_err(anyhow::Error::new);
        text.and_then(|text| Ok(vmbell_report::parse(&text)?))
            .with_context(|| format!("cannot use {}", path.display()))
    };
    let old = names.iter().filter(|name| name.starts_with("old-"));
    old.map(|name| Ok([read(name)?, read(&name.replacen("old", "new", 1))?]))
        .collect()
}

/// The rows that every report has.
fn rows(turns: &[Turn]) -> Vec<Name> {
    let measured = |report: &Report| -> Vec<Name> {
        let rows = report.results.iter().filter(|row| row.is_ok());
        rows.map(name).collect()
    };
    let mut reports = turns.iter().flatten().map(measured);
    let first = reports.next().unwrap_or_default();
    reports.fold(first, |mut rows, other| {
        rows.retain(|name| other.contains(name));
        rows
    })
}

/// Simulates the comparisons of one kind; each kind draws its own numbers. They take consecutive turns from one of chance on,
/// exchange the sides of each by chance, and multiply the times of one row on the new side.
fn simulate(turns: &[Turn], rows: &[Name], count: usize, factor: Option<f64>) -> Result<Tally> {
    let mut random = Random::new(SEED + count as u64);
    let mut tally = Tally::default();
    for trial in 0..TRIALS {
        let changed = factor.zip(Some(&rows[trial % rows.len()]));
        let from = random.below(turns.len() - count + 1);
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for pair in &turns[from..from + count] {
            let first = random.below(2);
            old.push(pair[first].clone());
            new.push(pair[1 - first].clone());
        }
        if let Some((factor, changed)) = changed {
            let rows = new.iter_mut().flat_map(|report| &mut report.results);
            for measured in rows
                .filter(|row| name(row) == *changed)
                .filter_map(Row::measured_mut)
            {
                measured
                    .times
                    .samples
                    .iter_mut()
                    .for_each(|ns| *ns *= factor);
                measured.times.median *= factor;
            }
        }
        let comparison = compared(old, new, random.next())?;
        tally.add(&comparison, changed.map(|(_, name)| name));
    }
    Ok(tally)
}

fn compared(old: Vec<Report>, new: Vec<Report>, seed: u64) -> Result<Comparison> {
    let options = CompareOptions {
        pairing: Pairing::Turns,
        seed,
        ..CompareOptions::default()
    };
    Ok(compare(&old, &new, &options)?)
}

fn name(row: &Row) -> Name {
    (row.command.clone(), row.backend.clone())
}

impl Tally {
    /// Counts what a comparison found, in which this row was changed.
    fn add(&mut self, comparison: &Comparison, changed: Option<&Name>) {
        let is_changed = |row: &ComparedRow| {
            changed.is_some_and(|(name, backend)| {
                row.key.command == *name && row.key.backend == *backend
            })
        };
        let is_alarm = |row: &ComparedRow| {
            matches!(row.verdict, Verdict::Faster | Verdict::Slower) && !is_changed(row)
        };
        self.comparisons += 1;
        self.alarms += usize::from(comparison.rows.iter().any(is_alarm));
        let mut worse = comparison.worse_than(THRESHOLD);
        self.failures += usize::from(worse.any(|row| !is_changed(row)));
        if let Some(changed) = changed {
            let is_found = |row: &ComparedRow| is_changed(row) && row.verdict == Verdict::Slower;
            let count = self.changed.entry(changed.clone()).or_default();
            count.0 += 1;
            count.1 += usize::from(comparison.rows.iter().any(is_found));
        }
    }
}

/// The share, and the ends of its 95 % interval (Wilson).
fn percent(part: usize, of: usize) -> String {
    if of == 0 {
        return "-".to_owned();
    }
    let (n, p, z) = (of as f64, part as f64 / of as f64, 1.96_f64);
    let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    format!(
        "{:.1} % ({:.1} to {:.1})",
        p * 100.0,
        (middle - half).max(0.0) * 100.0,
        (middle + half) * 100.0
    )
}
