//! `cargo xtask simulate FOLDER`: how often `vmbell compare` is wrong, by simulation on recorded noise.
//!
//! The folder has the turns of a `vmbell bench --interleave` of a program with itself (`--keep-turns`), so nothing changed in
//! them and every difference is noise of the host. A simulated comparison takes consecutive turns, as a real one has them,
//! exchanges the sides of some by chance, and, where a change is to be found, slows one row of the new side down. What is
//! counted is how many comparisons have a false alarm, and in how many the change is found. The exchange is what the test of
//! turns assumes, so false alarms are counted with the sides as they were recorded, too, on all windows of consecutive turns.

mod recording;
mod trial;

use std::path::Path;
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Result, anyhow, ensure};

use recording::Recording;
use trial::{Change, Tally};
use vmbell_report::Random;

/// How many turns a simulated comparison has.
const TURNS: [usize; 3] = [16, 24, 40];
/// How many comparisons of each kind are simulated.
const TRIALS: usize = 1000;
/// Changes of one row that are to be found, none among them.
const CHANGES: [Option<f64>; 3] = [None, Some(1.05), Some(1.10)];
const SEED: u64 = 1;

/// Simulates comparisons on the turns in the folder and prints what they found.
pub(super) fn run(folder: &Path) -> Result<()> {
    let recording = Recording::read(folder)?;
    let most = TURNS.into_iter().max().unwrap_or_default();
    ensure!(
        recording.turns() > most,
        "{} has {} turns, and more than {most} are needed",
        folder.display(),
        recording.turns()
    );
    println!(
        "{} turns of {} rows, {TRIALS} comparisons of each kind\n",
        recording.turns(),
        recording.rows().len()
    );
    for turns in TURNS {
        let windows = recording.windows(turns);
        let mut alarms = 0;
        for from in 0..windows {
            let mut tally = Tally::default();
            tally.add(&recording.compare_as_recorded(from, turns)?, None);
            alarms += tally.alarms();
        }
        println!(
            "{turns} turns with the sides as recorded: a false alarm in {alarms} of {windows} windows"
        );
    }
    println!();
    println!(
        "| turns | change of one row | comparisons with a false alarm | with one above 5 % | change found |"
    );
    println!("|---|---|---|---|---|");
    let kinds: Vec<(usize, Option<f64>)> = TURNS
        .into_iter()
        .flat_map(|turns| CHANGES.map(|factor| (turns, factor)))
        .collect();
    let tallies = thread::scope(|scope| {
        let recording = &recording;
        let start = |(turns, factor)| scope.spawn(move || simulate(recording, turns, factor));
        let threads: Vec<_> = kinds.iter().copied().map(start).collect();
        let join = |thread: ScopedJoinHandle<'_, Result<Tally>>| {
            thread
                .join()
                .map_err(|_| anyhow!("a simulation panicked"))?
        };
        threads
            .into_iter()
            .map(join)
            .collect::<Result<Vec<Tally>>>()
    })?;
    let mut missed = Vec::new();
    for ((turns, factor), tally) in kinds.into_iter().zip(tallies) {
        println!("{}", tally.line(turns, factor));
        missed.extend(tally.missed(turns, factor));
    }
    println!("\nrows whose change was found in fewer than 95 % of their comparisons:");
    for line in missed {
        println!("{line}");
    }
    Ok(())
}

/// Simulates the comparisons of one kind; each kind draws its own numbers.
fn simulate(recording: &Recording, turns: usize, factor: Option<f64>) -> Result<Tally> {
    let mut random = Random::new(SEED + turns as u64);
    let mut tally = Tally::default();
    let rows = recording.rows();
    for trial in 0..TRIALS {
        let row = &rows[trial % rows.len()];
        let change = factor.map(|factor| Change {
            row: row.clone(),
            factor,
        });
        let comparison = recording.compare(turns, change.as_ref(), &mut random)?;
        tally.add(&comparison, change);
    }
    Ok(tally)
}
