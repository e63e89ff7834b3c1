//! The first minute: a report of paths in at most 40 lines of 80 columns.
//!
//! First the answer in sentences, then one table, then how far to trust it. A backend whose costs mean nothing on this host is
//! one line, and so are the floors. What is left out here is in [`terminal`](mod@super::terminal), which `--verbose` shows.

use std::fmt::Write;

use super::answer::answer;
use super::cells::{Table, UNCLEAR, excuses, tables};
use super::columns::Paint;
use super::header::{ended_early, length, memory, quality, timing};
use super::terminal::{Column, lines};
use super::text::wrap;
use super::{Group, Look, Report, Row, Status, Timing, Warning, time_unit, units, warnings};

/// The widest line, on a terminal that has room for more.
const WIDEST: usize = 80;

/// The width of the labels in the last part.
const LABEL: usize = 8;

/// Writes `report` in short.
pub(super) fn brief(report: &Report, look: Look) -> String {
    let width = look.width.unwrap_or(WIDEST).min(WIDEST);
    let look = Look {
        width: Some(width),
        ..look
    };
    let mut text = String::new();
    let backends = report.backends.iter();
    let shown: Vec<&str> = backends
        .map(|one| one.name.as_str())
        .filter(|name| !is_hidden(report, name))
        .collect();
    if let [first, others @ ..] = shown.as_slice() {
        let prefix = match others {
            [] => String::new(),
            _ => report.prefix(first),
        };
        for sentence in answer(report, first) {
            let sentence = wrap(&format!("{prefix}{sentence}"), 0, look.width);
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(text, "{}", Paint::Bold.apply(&sentence, look.color));
        }
    }
    let tables = shown_tables(report, look);
    for table in &tables {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&laid_out(report, table, look));
    }
    let excuses = excuses(report);
    let is_told = |status| status == Status::Failed || tables.is_empty();
    for excuse in excuses.iter().filter(|excuse| is_told(excuse.status)) {
        let what = wrap(&excuse.what(report), 2, look.width);
        let what = excuse.paint().apply(&what, look.color);
        let _ = writeln!(text, "{what}\n  {}", wrap(excuse.reason, 2, look.width));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    for (label, line) in trust(report, &tables, look) {
        let line = wrap(&line, LABEL + 2, look.width);
        let label = Paint::Dim.apply(&format!("{label:LABEL$}"), look.color);
        let _ = writeln!(text, "{label}  {line}");
    }
    text
}

/// Whether the rows of a backend are left out: it emulates the guest's kernel mode, and another one does not.
fn is_hidden(report: &Report, backend: &str) -> bool {
    let mut backends = report.backends.iter();
    report.emulates_kernel_mode(backend) && backends.any(|one| !one.emulates_kernel_mode)
}

/// The tables of the backends that are not hidden; floors have one only if there is nothing else.
fn shown_tables(report: &Report, look: Look) -> Vec<Table<'_>> {
    let mut all = tables(report, look.unit);
    for table in &mut all {
        table.retain_backends(|backend| !is_hidden(report, backend));
    }
    all.retain(|table| !table.lines.is_empty());
    if all.iter().any(|table| table.group != Group::Floor) {
        all.retain(|table| table.group != Group::Floor);
    }
    all
}

fn laid_out(report: &Report, table: &Table<'_>, look: Look) -> String {
    let several = table.backends.len() > 1;
    let exits = [Column::Exits(0), Column::Exits(1)];
    let memory = [Column::Memory, Column::KernelMemory];
    let change = if several {
        Column::Cheaper
    } else {
        Column::Change
    };
    let columns = match report.timing {
        Timing::Native if several => vec![Column::Median, memory[0], memory[1], change],
        Timing::Native => {
            vec![Column::Median, Column::Spread, memory[0], memory[1], change]
        }
        // Instructions repeat exactly, so they have no spread. Exit counts are exact under emulation too.
        Timing::Emulated | Timing::Instructions => {
            vec![
                Column::Median,
                exits[0],
                exits[1],
                memory[0],
                memory[1],
                change,
            ]
        }
    };
    let left_out = [
        Column::Spread,
        exits[0],
        exits[1],
        memory[1],
        memory[0],
        change,
    ];
    lines(report, table, (&columns, &left_out), look)
}

/// How far the numbers can be trusted, as labels and texts.
fn trust(report: &Report, tables: &[Table<'_>], look: Look) -> Vec<(String, String)> {
    let mut lines = vec![
        ("host".to_owned(), host(report)),
        ("runs".to_owned(), runs(report)),
    ];
    for backend in &report.backends {
        let text = if is_hidden(report, &backend.name) {
            format!(
                "emulates the guest's kernel mode here, so its costs say nothing about hardware; --backend {} shows them",
                backend.name
            )
        } else if backend.emulates_kernel_mode {
            "emulates the guest's kernel mode here, so these costs say nothing about hardware"
                .to_owned()
        } else {
            backend.why.clone()
        };
        lines.push((backend.name.clone(), text));
    }
    lines.extend(timing(report).map(|text| ("timing".to_owned(), text.to_owned())));
    lines.extend(doubts(report).map(|text| ("quality".to_owned(), text)));
    if tables.iter().any(has_unclear) {
        let text = "the 95 % interval of the ratio contains 1: no difference is shown";
        lines.push((UNCLEAR.to_owned(), text.to_owned()));
    }
    if let Some((label, text)) = memory(report).and_then(|text| text.split_once(": ")) {
        lines.push((label.to_owned(), text.to_owned()));
    }
    let floors = floors(report, tables, look);
    lines.extend(floors.map(|text| ("floors".to_owned(), text)));
    let is_skipped = |row: &&Row| {
        row.status() == Status::Skipped && !is_hidden(report, &row.backend) && !tables.is_empty()
    };
    let skipped: Vec<&Row> = report.results.iter().filter(is_skipped).collect();
    lines.extend(why_skipped(&skipped).map(|text| ("skipped".to_owned(), text)));
    lines
}

/// How many rows were skipped, and why, if it is the same for several.
fn why_skipped(rows: &[&Row]) -> Option<String> {
    match rows {
        [] => None,
        [_] => Some("1 row; -v says why".to_owned()),
        [first, others @ ..] => Some(match first.reason() {
            Some(reason) if others.iter().all(|row| row.reason() == Some(reason)) => {
                format!("{} rows: {reason}", rows.len())
            }
            _ => format!("{} rows; -v says why", rows.len()),
        }),
    }
}

fn host(report: &Report) -> String {
    let host = &report.host;
    let mut parts = vec![host.cpu.clone(), host.kernel.clone()];
    let under = host.hypervisor.as_ref();
    parts.extend(under.map(|hypervisor| format!("itself under {hypervisor}")));
    parts.extend(host.level());
    parts.join(", ")
}

fn runs(report: &Report) -> String {
    let plan = &report.plan;
    let runs = units::plural(plan.finished, "run");
    format!(
        "medians of {runs} of {}, in random order, {:.1} s in all{}",
        length(report),
        report.duration,
        ended_early(report)
    )
}

/// What is wrong with the host or with rows; `None` where numbers have no noise and nothing else is wrong.
fn doubts(report: &Report) -> Option<String> {
    let mut parts = Vec::new();
    if report.timing == Timing::Native {
        parts.push(quality(report));
    }
    // The emulation has its own line, and a wide spread or a busy host is in the quality.
    let is_told = |warning: &Warning| {
        !matches!(
            warning,
            Warning::Wide { .. } | Warning::Loaded { .. } | Warning::Emulated
        )
    };
    let warnings = warnings(report).into_iter().filter(is_told);
    parts.extend(warnings.map(|warning| match warning {
        Warning::Outliers { names } => format!("outliers move the median of {}", rows(&names)),
        Warning::Short { names, .. } => format!("{} had runs that were too short", rows(&names)),
        other => other.to_string(),
    }));
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn rows(names: &[String]) -> String {
    match names {
        [only] => only.clone(),
        several => format!("{} rows", several.len()),
    }
}

fn has_unclear(table: &Table<'_>) -> bool {
    let mut all = table.lines.iter().flat_map(|line| &line.numbers).flatten();
    all.any(|numbers| matches!(&numbers.ratio, Some(ratio) if ratio.change == UNCLEAR))
}

/// What this host needs for a system call or a wake-up alone, where another table is shown.
fn floors(report: &Report, tables: &[Table<'_>], look: Look) -> Option<String> {
    let is_shown = tables.iter().any(|table| table.group == Group::Floor);
    let floors: Vec<String> = report
        .group(Group::Floor)
        .into_iter()
        .filter_map(|row| {
            let name = row.command.strip_prefix("floor-").unwrap_or(&row.command);
            let median = time_unit::measured(row.median()?, report, look.unit);
            Some(format!("{name} {median}"))
        })
        .collect();
    (!is_shown && !floors.is_empty()).then(|| floors.join(", "))
}

#[cfg(test)]
#[path = "brief_test.rs"]
mod tests;
