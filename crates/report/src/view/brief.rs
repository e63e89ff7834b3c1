//! The short form of a report of paths: at most 40 lines of 80 columns.
//!
//! First the answer in sentences, then one table, then how far to trust it. A backend whose costs mean nothing here
//! takes one line, and so do the floors. [`paths`](mod@super::paths), for `--verbose`, shows what is left out.

use super::Look;
use super::answer::answer;
use super::excuses::excuses;
use super::header::{ended_early, length, memory, quality, timing};
use super::numbers::{Lines, Number, Numbers, UNCLEAR, median};
use crate::table::{Block, Cell, Paint};
use crate::text::shortened;
use crate::{Group, Report, Row, Status, Timing, Warning, units, warnings};

/// The maximum number of lines about skipped rows.
const SKIPPED: usize = 6;

/// The width of a label.
const LABEL: usize = 10;

/// The maximum width of a line, even on a wider terminal.
pub(super) const WIDEST: usize = 80;

pub(super) fn blocks(report: &Report, look: Look) -> Vec<Block> {
    let mut blocks: Vec<Block> = emulated(report).into_iter().collect();
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
            let sentence = Cell::new(format!("{prefix}{sentence}"), Paint::Bold);
            blocks.push(Block::Text(sentence));
        }
    }
    let numbers = Numbers::of(report, look.unit);
    let lines = shown_lines(report);
    for lines in &lines {
        blocks.push(Block::Table(lines.table(&numbers, &columns(report, lines))));
    }
    let excuses = excuses(report);
    let is_told = |status| status == Status::Failed || lines.is_empty();
    let told = excuses.iter().filter(|excuse| is_told(excuse.status));
    blocks.extend(told.map(|excuse| excuse.block(report)));
    blocks.push(Block::Facts(trust(report, &lines, &numbers)));
    blocks
}

/// Names the backend that emulates the guest's kernel mode, the backend whose costs are shown instead, and the command
/// that shows the exits of real KVM.
fn emulated(report: &Report) -> Option<Block> {
    let mut backends = report.backends.iter();
    let name = &backends.find(|one| one.emulates_kernel_mode)?.name;
    let mut others = report.backends.iter().map(|one| &one.name);
    let sentence = match others.find(|other| !is_hidden(report, other)) {
        Some(other) if other != name => format!(
            "These are costs of the {other} backend. {name} emulates the guest's kernel mode here, so its costs \
             (--backend {name}) say nothing about hardware."
        ),
        _ => format!(
            "{name} emulates the guest's kernel mode here, so these costs say nothing about hardware."
        ),
    };
    let sentence = format!("{sentence} `vmbell lab -- vmbell bench` shows the exits of real KVM.");
    Some(Block::Text(Cell::new(sentence, Paint::Yellow)))
}

/// Whether the rows of a backend are left out: it emulates the guest's kernel mode, and a different backend does not.
fn is_hidden(report: &Report, backend: &str) -> bool {
    let mut backends = report.backends.iter();
    report.emulates_kernel_mode(backend) && backends.any(|one| !one.emulates_kernel_mode)
}

/// The rows of all backends that are not hidden; floors only if there is nothing else.
fn shown_lines(report: &Report) -> Vec<Lines<'_>> {
    let mut all = Lines::of(report, |backend| !is_hidden(report, backend));
    if all.iter().any(|lines| lines.group != Group::Floor) {
        all.retain(|lines| lines.group != Group::Floor);
    }
    all
}

/// The most important numbers. Instructions repeat exactly, so they have no spread; exits are exact even if emulated.
fn columns(report: &Report, lines: &Lines<'_>) -> Vec<Number> {
    let several = lines.backends.len() > 1;
    let mut columns = vec![Number::Median];
    match report.timing {
        Timing::Native if several => {}
        Timing::Native => columns.push(Number::Spread),
        Timing::Emulated | Timing::Instructions => {
            columns.extend([Number::Light, Number::Heavy]);
        }
    }
    columns.extend([Number::Memory, Number::KernelMemory]);
    columns.push(match several {
        true => Number::Cheaper,
        false => Number::Change,
    });
    columns
}

/// How far the numbers can be trusted, as labels and texts.
fn trust(report: &Report, shown: &[Lines<'_>], numbers: &Numbers<'_>) -> Vec<(String, String)> {
    let mut lines = vec![
        ("host".to_owned(), host(report)),
        ("runs".to_owned(), runs(report)),
    ];
    let told = report.backends.iter();
    let told = told.filter(|one| !is_hidden(report, &one.name));
    lines.extend(told.map(|one| (one.name.clone(), one.why.clone())));
    lines.extend(timing(report).map(|text| ("timing".to_owned(), text.to_owned())));
    lines.extend(doubts(report).map(|text| ("quality".to_owned(), text)));
    if shown.iter().any(has_unclear) {
        let text = "the 95 % interval of the ratio contains 1: no difference is shown";
        lines.push((UNCLEAR.to_owned(), text.to_owned()));
    }
    if let Some((label, text)) = memory(report).and_then(|text| text.split_once(": ")) {
        lines.push((label.to_owned(), text.to_owned()));
    }
    let floors = floors(shown, numbers);
    lines.extend(floors.map(|text| ("floors".to_owned(), text)));
    let is_skipped = |row: &&Row| {
        row.status() == Status::Skipped && !is_hidden(report, &row.backend) && !shown.is_empty()
    };
    lines.extend(skipped(report, report.results.iter().filter(is_skipped)));
    lines
}

/// A line with the reason for each skipped row; beyond the first few, rows are only counted.
fn skipped<'r>(report: &Report, rows: impl Iterator<Item = &'r Row>) -> Vec<(String, String)> {
    let texts = rows.map(|row| {
        let reason = row.reason().unwrap_or("no reason is known");
        match report.backends.as_slice() {
            [_] => format!("{}: {reason}", row.command),
            _ => format!("{} on {}: {reason}", row.command, row.backend),
        }
    });
    let mut texts: Vec<String> = texts.collect();
    if texts.len() > SKIPPED {
        let more = texts.len() + 1 - SKIPPED;
        texts.truncate(SKIPPED - 1);
        texts.push(format!("{more} more; -v says why"));
    }
    let labelled = |text: String| ("skipped".to_owned(), shortened(&text, WIDEST - LABEL));
    texts.into_iter().map(labelled).collect()
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

/// What is wrong with the host or with rows; `None` if numbers have no noise and nothing else is wrong.
fn doubts(report: &Report) -> Option<String> {
    let mut parts = Vec::new();
    if report.timing == Timing::Native {
        parts.push(quality(report));
    }
    // The emulation has its own line, and a wide spread or a busy host is part of the quality.
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

fn has_unclear(lines: &Lines<'_>) -> bool {
    let mut rows = lines.rows.iter().flatten().flatten();
    rows.any(|row| {
        row.ratio()
            .is_some_and(|ratio| !ratio.is_bound && ratio.is_unclear())
    })
}

/// What this host needs just for a system call or a wake-up, if the table does not show it.
fn floors(shown: &[Lines<'_>], numbers: &Numbers<'_>) -> Option<String> {
    let is_shown = shown.iter().any(|lines| lines.group == Group::Floor);
    let floors: Vec<String> = numbers
        .report
        .group(Group::Floor)
        .into_iter()
        .filter_map(|row| {
            let name = row.command.strip_prefix("floor-").unwrap_or(&row.command);
            let median = median(numbers.report, row, numbers.unit)?;
            Some(format!("{name} {median}"))
        })
        .collect();
    (!is_shown && !floors.is_empty()).then(|| floors.join(", "))
}

#[cfg(test)]
#[path = "brief_test.rs"]
mod tests;
