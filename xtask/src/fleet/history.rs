//! A host's history as OpenMetrics with time stamps, made from one run: the same figures on a different kernel.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

/// The start, end and step of the history.
const BEGIN: Duration = Duration::from_secs(9 * 86_400);
const END: Duration = Duration::from_secs(3600);
const STEP: usize = 3600;

/// The kernel during the history.
const KERNEL: &str = "Linux 0.0.1";

/// Returns the history of the metrics in `text`, as scraped from `instance` by the job `node`.
pub(super) fn before(text: &str, instance: &str) -> Result<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let times = || (now - BEGIN).as_secs()..(now - END).as_secs();
    let mut past = String::new();
    for line in text.lines() {
        if line.starts_with('#') {
            past.push_str(line);
            past.push('\n');
            continue;
        }
        let (series, value) = line.rsplit_once(' ').context("a sample without a value")?;
        let series = with_labels(&replaced(series, "kernel", KERNEL), instance);
        for time in times().step_by(STEP) {
            // Writing to a String cannot fail.
            let _ = writeln!(past, "{series} {value} {time}");
        }
    }
    Ok(past)
}

/// Returns the same run with every median `factor` times as long, and with runs that agree with each other.
pub(super) fn slower(text: &str, factor: f64) -> Result<String> {
    let mut slower = String::new();
    for line in text.lines() {
        let changed = match line.rsplit_once(' ') {
            Some((series, value)) if series.starts_with("vmbell_operation_seconds{") => {
                let value: f64 = value.parse().context("a median that is not a number")?;
                format!("{series} {}", value * factor)
            }
            Some((series, _)) if series.starts_with("vmbell_operation_spread_ratio{") => {
                format!("{series} 0.01")
            }
            _ => line.to_owned(),
        };
        slower.push_str(&changed);
        slower.push('\n');
    }
    Ok(slower)
}

/// Adds the labels that a scrape adds to a series.
fn with_labels(series: &str, instance: &str) -> String {
    let scraped = format!("instance=\"{instance}\",job=\"node\"");
    match series.split_once('{') {
        Some((name, labels)) => format!("{name}{{{scraped},{labels}"),
        None => format!("{series}{{{scraped}}}"),
    }
}

/// Returns the series with a different value for a label, if it has the label.
fn replaced(series: &str, label: &str, value: &str) -> String {
    let begin = format!(",{label}=\"");
    match series.split_once(&begin) {
        Some((before, rest)) => match rest.split_once('"') {
            Some((_, after)) => format!("{before}{begin}{value}\"{after}"),
            None => series.to_owned(),
        },
        None => series.to_owned(),
    }
}
