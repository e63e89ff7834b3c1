//! The events of two modes side by side, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::Counted;
use vmbell_report::Backend;

/// Which rows are shown.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Those whose name contains this.
    pub filter: Option<String>,
    /// Those that happened at least once.
    pub only_counted: bool,
}

/// What `vmbell stat --json` writes.
#[derive(Debug, Serialize)]
struct Json<'r> {
    backend: &'r str,
    backend_why: &'r str,
    source: &'r str,
    workload: &'r str,
    modes: BTreeMap<&'static str, JsonMode<'r>>,
}

#[derive(Debug, Serialize)]
struct JsonMode<'r> {
    events: BTreeMap<&'r str, u64>,
    interrupts: u64,
    eoi_spared: u64,
    exits: u64,
    exits_per_interrupt: Option<f64>,
    seconds: f64,
}

impl Rows {
    /// The names to show, in the order of the table: the most frequent first, as the eye wants it.
    fn names<'o>(&self, modes: &'o [Counted]) -> Vec<&'o str> {
        let mut most: BTreeMap<&str, u64> = BTreeMap::new();
        for counted in modes {
            for (name, count) in &counted.events {
                let most = most.entry(name).or_default();
                *most = (*most).max(*count);
            }
        }
        let wanted = |(name, count): &(&str, u64)| {
            let named = self.filter.as_ref().is_none_or(|part| name.contains(part));
            named && (*count > 0 || !self.only_counted)
        };
        let mut rows: Vec<(&str, u64)> = most.into_iter().filter(wanted).collect();
        rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        rows.into_iter().map(|(name, _)| name).collect()
    }
}

/// The table: a row for each event, a column for each mode, and the change from the first to the last.
pub fn table(modes: &[Counted], rows: &Rows, backend: &Backend, workload: &str) -> String {
    let mut text = String::new();
    let source = modes.first().map_or("", |counted| &counted.source);
    let names = rows.names(modes);
    let width = names
        .iter()
        .map(|name| name.len())
        .max()
        .unwrap_or(0)
        .max(20);
    // Writing to a string does not fail.
    let _ = writeln!(text, "backend   {} ({})", backend.name, backend.why);
    let _ = writeln!(text, "counted   by {source}");
    let _ = writeln!(text, "workload  {workload}\n");
    let mut line = |name: &str, cells: Vec<String>, change: &str| {
        let cells: String = cells.iter().map(|cell| format!("  {cell:>12}")).collect();
        let line = format!("{name:width$}{cells}  {change:>9}");
        let _ = writeln!(text, "{}", line.trim_end());
    };
    let names_of_modes = modes.iter().map(|counted| counted.mode.name().to_owned());
    line("event", names_of_modes.collect(), "change");
    for name in names {
        let counts = modes
            .iter()
            .map(|counted| counted.events.get(name).copied());
        let counts: Vec<Option<u64>> = counts.collect();
        let ends = counts
            .first()
            .copied()
            .flatten()
            .zip(counts.last().copied().flatten());
        let cells = counts
            .iter()
            .map(|count| count.map_or_else(|| "-".to_owned(), |count| count.to_string()));
        line(
            name,
            cells.collect(),
            &ends.map_or_else(String::new, change),
        );
    }
    let each = |read: &dyn Fn(&Counted) -> String| modes.iter().map(read).collect();
    line("", Vec::new(), "");
    line("interrupts taken", each(&|o| o.interrupts.to_string()), "");
    line("ends by the bit", each(&|o| o.spared.to_string()), "");
    let per_interrupt = |counted: &Counted| {
        let exits = counted.exits_per_interrupt();
        exits.map_or_else(|| "-".to_owned(), |exits| format!("{exits:.3}"))
    };
    line("exits per interrupt", each(&per_interrupt), &ratio(modes));
    let seconds = |counted: &Counted| format!("{:.2}", counted.elapsed.as_secs_f64());
    line("seconds", each(&seconds), "");
    text
}

/// In per cent, as perf and the people who compare tables of it write it.
#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn change((before, after): (u64, u64)) -> String {
    if before == after {
        return String::new();
    }
    if before == 0 {
        return "new".to_owned();
    }
    format!("{:+.1} %", (after as f64 / before as f64 - 1.0) * 100.0)
}

fn ratio(modes: &[Counted]) -> String {
    let of = |counted: Option<&Counted>| counted.and_then(Counted::exits_per_interrupt);
    match (of(modes.first()), of(modes.last())) {
        (Some(before), Some(after)) if modes.len() > 1 && before > 0.0 => {
            format!("{:+.1} %", (after / before - 1.0) * 100.0)
        }
        _ => String::new(),
    }
}

/// The same as JSON; `docs/report-schema.md` describes it.
pub fn table_json(
    modes: &[Counted],
    rows: &Rows,
    backend: &Backend,
    workload: &str,
) -> serde_json::Result<String> {
    let names = rows.names(modes);
    let json = Json {
        backend: &backend.name,
        backend_why: &backend.why,
        source: modes.first().map_or("", |counted| &counted.source),
        workload,
        modes: modes.iter().map(|counted| mode(counted, &names)).collect(),
    };
    let mut text = serde_json::to_string_pretty(&json)?;
    text.push('\n');
    Ok(text)
}

fn mode<'o>(counted: &'o Counted, names: &[&'o str]) -> (&'static str, JsonMode<'o>) {
    let count = |name: &&'o str| Some((*name, *counted.events.get(*name)?));
    let json = JsonMode {
        events: names.iter().filter_map(count).collect(),
        interrupts: counted.interrupts,
        eoi_spared: counted.spared,
        exits: counted.exits,
        exits_per_interrupt: counted.exits_per_interrupt(),
        seconds: counted.elapsed.as_secs_f64(),
    };
    (counted.mode.name(), json)
}

#[cfg(test)]
#[path = "table_test.rs"]
mod tests;
