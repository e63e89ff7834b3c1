//! The results as `perf stat --repeat` prints its own, a block a variant, and their ratios.

use std::fmt::Write as _;

use super::measure::{Results, Run, Session};
use super::ratio::{counts, ratios, seconds};
use vmbell_bench::perf::{Event, Scope};
use vmbell_bench::workload::{Batch, Tally};
use vmbell_report::statistics::Summary;

/// All of it.
pub(super) fn text(session: &Session, results: &Results) -> String {
    let mut text = work(session);
    for (variant, runs) in session.variants.iter().zip(&results.runs) {
        let _ = write!(
            text,
            "\n Virtqueue counter stats for '{}' ({} runs):\n\n",
            variant.switches,
            runs.len()
        );
        block(&mut text, runs, results);
    }
    let ratios = ratios(session, results);
    if !ratios.is_empty() {
        text.push_str("\n ratios of medians (new/old, below 1 = less), with 95 % confidence:\n\n");
    }
    for ratio in ratios {
        let interval = ratio.interval;
        let _ = writeln!(
            text,
            "   {:12}  {:.4} [{:.4}, {:.4}]   {} / {}",
            ratio.of, interval.value, interval.low, interval.high, ratio.new, ratio.old
        );
    }
    for (event, scope) in &results.events {
        if let Err(reason) = scope {
            let _ = write!(text, "\n {} not counted: {reason}", event.name());
        }
    }
    if results.events.iter().any(|(_, scope)| scope.is_err()) {
        text.push('\n');
    }
    if results.interrupted {
        text.push_str("\n INTERRUPTED: only whole rounds are shown\n");
    }
    text
}

/// What all variants have in common.
fn work(session: &Session) -> String {
    let Some(variant) = session.variants.first() else {
        return String::new();
    };
    let options = &variant.options;
    let batch = match options.batch {
        Batch::Fixed(batch) => format!("batch {batch}"),
        Batch::Random => "random batches".to_owned(),
    };
    let pieces = match options.pieces {
        1 => String::new(),
        pieces => format!(" of {pieces} pieces"),
    };
    let reset = match options.reset {
        Some(reset) => format!(", a reset every {reset}"),
        None => String::new(),
    };
    let place = match session.place.device {
        Some(device) => format!(
            "driver on CPU {}, device on CPU {device}",
            session.place.driver
        ),
        None => format!("both sides on one thread, CPU {}", session.place.driver),
    };
    format!(
        " {} buffers{pieces} a run, {batch}{reset}; {} descriptors; {place}; seed {}\n",
        options.bufs, options.ring_size, session.seed
    )
}

/// One of the numbers of a tally.
type Field = fn(&Tally) -> u64;

fn block(text: &mut String, runs: &[Run], results: &Results) {
    #[allow(
        clippy::cast_precision_loss,
        reason = "counts of a benchmark are far below 2^53"
    )]
    let field =
        |field: Field| -> Vec<f64> { runs.iter().map(|run| field(&run.tally) as f64).collect() };
    let seconds = seconds(runs);
    let bufs = Summary::of(&field(|tally| tally.bufs)).map_or(1.0, |bufs| bufs.mean);
    for (event, scope) in &results.events {
        let name = match scope {
            Ok(Scope::User) => format!("{}:u", event.name()),
            _ => event.name().to_owned(),
        };
        match counts(runs, *event).filter(|counts| !counts.is_empty()) {
            Some(counts) if *event == Event::TaskClock => {
                let used: f64 = counts.iter().sum::<f64>() / 1e9;
                let note = format!("{:.3} CPUs utilized", used / seconds.iter().sum::<f64>());
                let counts: Vec<f64> = counts.iter().map(|ns| ns / 1e6).collect();
                line(text, &counts, 2, &format!("msec {name}"), &note);
            }
            Some(counts) => line(text, &counts, 0, &name, &each(&counts, bufs)),
            None => {
                let _ = writeln!(text, "{:>18}      {name}", "<not counted>");
            }
        }
    }
    let fields: [(&str, Field); 4] = [
        ("kicks", |tally| tally.kicks),
        ("calls", |tally| tally.calls),
        ("spurious wake-ups", |tally| tally.spurious),
        ("resets", |tally| tally.resets),
    ];
    for (name, get) in fields {
        let counts = field(get);
        line(text, &counts, 0, name, &each(&counts, bufs));
    }
    if let Some(time) = Summary::of(&seconds) {
        let _ = writeln!(
            text,
            "\n{:>18.6} +- {:.6} seconds time elapsed, {:.1} ns a buffer{}",
            time.mean,
            error_of_mean(&seconds).unwrap_or_default() * time.mean,
            time.mean * 1e9 / bufs,
            spread(&seconds)
        );
    }
}

/// How many there are of something for each buffer.
fn each(counts: &[f64], bufs: f64) -> String {
    let mean = Summary::of(counts).map_or(0.0, |counts| counts.mean);
    format!("{:.3} a buffer", mean / bufs)
}

/// The mean of `counts`, what they are, a remark and how sure the mean is.
fn line(text: &mut String, counts: &[f64], digits: usize, name: &str, note: &str) {
    let mean = Summary::of(counts).map_or(0.0, |counts| counts.mean);
    let spread = spread(counts);
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

/// The standard error of the mean as a share of it, which is what `perf stat` prints; none for a
/// single run.
#[allow(
    clippy::cast_precision_loss,
    reason = "there are far fewer than 2^53 runs"
)]
pub(super) fn error_of_mean(values: &[f64]) -> Option<f64> {
    let summary = Summary::of(values)?;
    let stddev = summary.stddev?;
    if summary.mean == 0.0 {
        return Some(0.0);
    }
    Some(stddev / (values.len() as f64).sqrt() / summary.mean)
}

#[cfg(test)]
#[path = "text_test.rs"]
mod tests;
