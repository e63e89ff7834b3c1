//! The report in the form of `perf stat --repeat`, which is what `vmbell bench rings` prints: a block for
//! each row, then the ratios.

use std::fmt::Write as _;

use super::header::excuse;
use super::statistics::{Summary, error_of_mean};
use super::{EventUnit, Measured, Ratio, Report, Scope, Work};

/// The name of the parameter that holds all switches of a row's variant.
const SWITCHES: &str = "switches";

/// Writes `report` for the terminal.
pub(super) fn perf_stat(report: &Report, work: &Work) -> String {
    let mut text = format!(" {}; seed {}\n", work.text, report.seed);
    for row in &report.results {
        let switches = row.parameters.get(SWITCHES).unwrap_or(&row.command);
        let runs = row.times().map_or(0, |times| times.samples.len());
        let _ = write!(
            text,
            "\n Virtqueue counter stats for '{switches}' ({runs} runs):\n\n"
        );
        match row.measured() {
            Some(measured) => block(&mut text, measured, work),
            None => {
                let _ = writeln!(text, "{:>18} {}", "", excuse(row));
            }
        }
    }
    ratios(&mut text, report, work);
    let mut missing = work
        .events
        .iter()
        .filter(|event| event.scope.is_none())
        .peekable();
    if missing.peek().is_some() {
        for event in missing {
            let reason = event.reason.as_deref().unwrap_or_default();
            let _ = write!(text, "\n {} not counted: {reason}", event.event);
        }
        text.push('\n');
    }
    if report.interrupted {
        text.push_str("\n INTERRUPTED: only whole rounds are shown\n");
    } else if report.timed_out {
        text.push_str("\n TIME LIMIT reached: only whole rounds are shown\n");
    }
    text
}

fn ratios(text: &mut String, report: &Report, work: &Work) {
    if report.results.iter().any(|row| row.ratio().is_some()) {
        text.push_str("\n ratios of medians (new/old, below 1 = less), with 95 % confidence:\n\n");
    }
    for row in &report.results {
        let Some(measured) = row.measured() else {
            continue;
        };
        let mut line = |of: &str, ratio: &Ratio| {
            let interval = match ratio.interval() {
                Some([low, high]) => format!("[{low:.4}, {high:.4}]"),
                None => "[-]".to_owned(),
            };
            let (value, reference) = (ratio.value, &ratio.reference);
            let _ = writeln!(
                text,
                "   {of:12}  {value:.4} {interval}   {} / {reference}",
                row.command
            );
        };
        measured.ratio.iter().for_each(|ratio| line("time", ratio));
        for event in &work.events {
            let ratio = measured.ratios.get(&event.event);
            ratio
                .into_iter()
                .for_each(|ratio| line(&event.event, ratio));
        }
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark are far below 2^53"
)]
fn block(text: &mut String, row: &Measured, work: &Work) {
    let seconds = row.times.seconds();
    let all: u64 = row.times.ops.iter().sum();
    let ops = (all as f64 / seconds.len().max(1) as f64).max(1.0);
    let operation = &work.operation;
    let each = |runs: &[f64]| format!("{:.3} a {operation}", mean(runs) / ops);
    for event in &work.events {
        let name = match event.scope {
            Some(Scope::User) => format!("{}:u", event.event),
            _ => event.event.clone(),
        };
        match (row.events.get(&event.event), event.unit) {
            (None, _) => {
                let _ = writeln!(text, "{:>18}      {name}", "<not counted>");
            }
            (Some(runs), EventUnit::Count) => {
                let runs = floats(runs);
                line(text, &runs, 0, &name, &each(&runs));
            }
            (Some(runs), EventUnit::Ns) => {
                let used: f64 = floats(runs).iter().sum::<f64>() / 1e9;
                let note = format!("{:.3} CPUs utilized", used / seconds.iter().sum::<f64>());
                let msec: Vec<f64> = floats(runs).iter().map(|ns| ns / 1e6).collect();
                line(text, &msec, 2, &format!("msec {name}"), &note);
            }
        }
    }
    for (name, runs) in row.counts.iter() {
        let runs = floats(runs);
        line(text, &runs, 0, name, &each(&runs));
    }
    let elapsed = mean(&seconds);
    let _ = writeln!(
        text,
        "\n{elapsed:>18.6} +- {:.6} seconds time elapsed, {:.1} ns a {operation}{}",
        error_of_mean(&seconds).unwrap_or_default() * elapsed,
        elapsed * 1e9 / ops,
        spread(&seconds)
    );
}

#[allow(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark are far below 2^53"
)]
fn floats(runs: &[u64]) -> Vec<f64> {
    runs.iter().map(|count| *count as f64).collect()
}

fn mean(values: &[f64]) -> f64 {
    Summary::of(values).map_or(0.0, |summary| summary.mean)
}

/// Writes one line: the mean of `counts` with `digits` decimals, their name, a remark and the standard
/// error of the mean.
fn line(text: &mut String, counts: &[f64], digits: usize, name: &str, note: &str) {
    let (mean, spread) = (mean(counts), spread(counts));
    let _ = writeln!(
        text,
        "{mean:>18.digits$}      {name:<24} # {note:>20}{spread}"
    );
}

fn spread(values: &[f64]) -> String {
    error_of_mean(values).map_or_else(String::new, |error| {
        format!("   ( +- {:5.2}% )", error * 100.0)
    })
}

#[cfg(test)]
#[path = "perf_stat_test.rs"]
mod tests;
