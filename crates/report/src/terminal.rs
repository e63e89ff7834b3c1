//! The whole report on a terminal, as `--verbose` shows it: a header that can be pasted elsewhere, what the numbers mean, a
//! table for each group, and the ratios that answer the usual questions.
//!
//! Nothing is wider than the terminal: a table leaves out columns, the least important first, and sentences are broken
//! between words. [`brief`](mod@super::brief) is the short form.

use std::fmt::Write;

use super::answer::answer;
use super::bar::Scale;
use super::brief::brief;
use super::cells::{Numbers, RatioCells, Table, excuses, tables};
use super::columns::{Cell, CellRow, Paint, layout, width};
use super::events::events;
use super::header::{below_one, footnotes, header, median_title};
use super::perf_stat::perf_stat;
use super::text::{self, pad, wrap};
use super::{Group, Kind, Paths, Report, TimeUnit, vmm_table};

/// Options of the terminal form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether to use colours.
    pub color: bool,
    /// Whether to show everything: of paths, the whole header, floors, intervals, exits and footnotes.
    pub verbose: bool,
    /// Whether a table of VMMs has ratios to its first column, in place of the measured numbers.
    pub ratios: bool,
    /// Whether each median has a bar beside it, where the lines are long enough.
    pub bars: bool,
    /// The unit of all times; without one, each has the unit that fits it.
    pub unit: Option<TimeUnit>,
    /// The number of characters that fit into a line, if that is limited.
    pub width: Option<usize>,
}

/// Writes `report` for a terminal, in the form of its suite.
pub fn terminal(report: &Report, look: Look) -> String {
    match &report.kind {
        Kind::Paths(paths) if look.verbose => of_paths(report, paths, look),
        Kind::Paths(_) => brief(report, look),
        Kind::Rings { work } => perf_stat(report, work),
        Kind::Eoi { work } => events(report, work),
        Kind::Vmms { .. } | Kind::Net { .. } => vmm_table::terminal(report, look),
    }
}

fn of_paths(report: &Report, paths: &Paths, look: Look) -> String {
    let mut text = String::new();
    let labels: Vec<(&str, String)> = header(report);
    let widest = labels.iter().map(|(label, _)| text::width(label)).max();
    let widest = widest.unwrap_or_default();
    for (label, line) in labels {
        let line = wrap(&line, widest + 2, look.width);
        let label = Paint::Dim.apply(&pad(label, widest), look.color);
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{label}  {line}");
    }
    text.push('\n');
    for backend in &report.backends {
        let prefix = report.prefix(&backend.name);
        let sentences = answer(report, &backend.name);
        for sentence in &sentences {
            let sentence = wrap(&format!("{prefix}{sentence}"), 0, look.width);
            let _ = writeln!(text, "{}", Paint::Bold.apply(&sentence, look.color));
        }
        if !sentences.is_empty() {
            text.push('\n');
        }
    }
    let tables: Vec<String> = tables(report, look.unit)
        .iter()
        .map(|table| lines(report, table, (&COLUMNS, &LEFT_OUT), look))
        .collect();
    text.push_str(&tables.join("\n"));
    for note in footnotes(report) {
        let note = wrap(note, 0, look.width);
        let _ = writeln!(text, "{}", Paint::Dim.apply(&note, look.color));
    }
    let excuses = excuses(report);
    if !excuses.is_empty() && !tables.is_empty() {
        text.push('\n');
    }
    for excuse in excuses {
        let what = wrap(&excuse.what(report), 2, look.width);
        let what = excuse.paint().apply(&what, look.color);
        let _ = writeln!(text, "{what}\n  {}", wrap(excuse.reason, 2, look.width));
    }
    text.push_str(&highlights(report, paths, look));
    text
}

/// The highlights: each ratio with its interval, and what it compares.
fn highlights(report: &Report, paths: &Paths, look: Look) -> String {
    if paths.highlights.is_empty() {
        return String::new();
    }
    let title = format!(
        "ratios that matter (new/old, below 1 = {})",
        below_one(report)
    );
    let mut text = format!("\n{}\n", Paint::Bold.apply(&title, look.color));
    let ratios: Vec<RatioCells> = paths
        .highlights
        .iter()
        .map(|highlight| RatioCells::of(&highlight.ratio))
        .collect();
    let cells = |ratio: &RatioCells| {
        vec![
            Cell::default(),
            Cell::new(ratio.value.clone(), Paint::Bold),
            Cell::from(bounds(ratio)),
        ]
    };
    let numbers: Vec<CellRow> = ratios.iter().map(cells).collect();
    let indent = width(&numbers) + 2;
    let laid_out = layout(&numbers, look.color);
    for (numbers, highlight) in laid_out.lines().zip(&paths.highlights) {
        let backend = report.prefix(&highlight.backend);
        let (new, old) = (&highlight.new, &highlight.ratio.reference);
        let meaning = format!("{backend}{} ({new} / {old})", highlight.text);
        let _ = writeln!(text, "{numbers}  {}", wrap(&meaning, indent, look.width));
    }
    text
}

/// A column of a table, for each backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Median,
    Spread,
    P99,
    Rate,
    /// The mean, the fastest run, the slowest run, the CPU time.
    More(usize),
    /// Light exits, heavy exits.
    Exits(usize),
    Memory,
    KernelMemory,
    Ratio,
    Interval,
    /// The ratio in words.
    Change,
    /// The same without the word that the title has.
    Cheaper,
    Bar,
}

/// The columns in the order in which they stand.
const COLUMNS: [Column; 15] = [
    Column::Median,
    Column::Spread,
    Column::P99,
    Column::Rate,
    Column::More(0),
    Column::More(1),
    Column::More(2),
    Column::More(3),
    Column::Exits(0),
    Column::Exits(1),
    Column::Memory,
    Column::KernelMemory,
    Column::Ratio,
    Column::Interval,
    Column::Bar,
];

/// The columns in the order in which a table that is too wide leaves them out.
const LEFT_OUT: [Column; 14] = [
    Column::More(0),
    Column::More(3),
    Column::More(1),
    Column::More(2),
    Column::Rate,
    Column::Bar,
    Column::Interval,
    Column::P99,
    Column::Exits(0),
    Column::Exits(1),
    Column::Spread,
    Column::KernelMemory,
    Column::Memory,
    Column::Ratio,
];

/// Lays a table out with as many columns as fit, those of the second list left out one after the other.
pub(super) fn lines(
    report: &Report,
    table: &Table<'_>,
    (columns, left_out): (&[Column], &[Column]),
    look: Look,
) -> String {
    let applies = |column: &Column| column.applies(table, look);
    let mut columns: Vec<Column> = columns.iter().copied().filter(applies).collect();
    let mut left_out = left_out.iter();
    loop {
        let rows = rows(report, table, &columns, look);
        let fits = look.width.is_none_or(|most| width(&rows) <= most);
        match left_out.next() {
            Some(column) if !fits => columns.retain(|other| other != column),
            _ => return layout(&rows, look.color),
        }
    }
}

fn rows(report: &Report, table: &Table<'_>, columns: &[Column], look: Look) -> Vec<CellRow> {
    let mut rows = Vec::new();
    if table.backends.len() > 1 {
        let blocks = table.backends.iter().flat_map(|backend| {
            let first = std::iter::once(Cell::new(marked(report, backend), Paint::Bold));
            first.chain(columns.iter().skip(1).map(|_| Cell::default()))
        });
        rows.push(std::iter::once(Cell::default()).chain(blocks).collect());
    }
    let scale = Scale::of(report);
    let title = |column: &Column| Cell::new(column.title(report, scale, look.unit), Paint::Bold);
    let titles = table
        .backends
        .iter()
        .flat_map(|_| columns.iter().map(title));
    let name = std::iter::once(Cell::new(table.group.name(), Paint::Bold));
    rows.push(name.chain(titles).collect());
    for line in &table.lines {
        let cells = line.numbers.iter().flat_map(|numbers| {
            columns.iter().map(move |column| match numbers {
                Some(numbers) => column.cell(numbers, table.group, scale),
                None => Cell::from(if *column == Column::Median { "-" } else { "" }),
            })
        });
        rows.push(
            std::iter::once(Cell::from(line.name))
                .chain(cells)
                .collect(),
        );
    }
    rows
}

/// The name of a backend, with a mark if it emulates the guest's kernel mode, which a footnote explains.
fn marked(report: &Report, backend: &str) -> String {
    let mark = if report.emulates_kernel_mode(backend) {
        "†"
    } else {
        ""
    };
    format!("{backend}{mark}")
}

impl Column {
    /// Whether any row of the table can have a value in it.
    fn applies(self, table: &Table<'_>, look: Look) -> bool {
        match self {
            Self::Median | Self::Spread => true,
            Self::P99 => table.has(|numbers| numbers.p99.is_some()),
            Self::Rate => table.has(|numbers| numbers.rate.is_some()),
            Self::More(_) => look.verbose,
            Self::Bar => look.bars,
            Self::Exits(_) => table.has(|numbers| numbers.exits.is_some()),
            Self::Memory => table.has(|numbers| numbers.memory.is_some()),
            Self::KernelMemory => table.has(|numbers| numbers.kernel_memory.is_some()),
            Self::Ratio | Self::Change | Self::Cheaper => table.has_ratio(),
            Self::Interval => table.has(|numbers| {
                numbers
                    .ratio
                    .as_ref()
                    .is_some_and(|ratio| ratio.interval.is_some())
            }),
        }
    }

    fn title(self, report: &Report, scale: Option<Scale>, unit: Option<TimeUnit>) -> String {
        let title = match self {
            Self::Median => median_title(report),
            Self::Spread => "± spread",
            Self::P99 => "p99",
            Self::Rate => "rate",
            Self::More(index) => ["mean", "min", "max", "CPU/op"][index],
            Self::Exits(index) => ["light/op", "heavy/op"][index],
            Self::Memory => "memory",
            Self::KernelMemory => "kernel memory",
            Self::Ratio => "ratio",
            Self::Interval => "95 % CI",
            Self::Change => "compared",
            Self::Cheaper => "cheaper",
            Self::Bar => {
                return scale.map_or_else(String::new, |scale| scale.title(report, unit));
            }
        };
        title.to_owned()
    }

    fn cell(self, numbers: &Numbers, group: Group, scale: Option<Scale>) -> Cell {
        let or_dash = |text: &Option<String>| Cell::from(text.as_deref().unwrap_or("-"));
        match self {
            Self::Median => Cell::new(numbers.median.clone(), Paint::Bold),
            Self::Spread => or_dash(&numbers.spread),
            Self::P99 => or_dash(&numbers.p99),
            Self::Rate => or_dash(&numbers.rate),
            Self::More(index) => or_dash(&numbers.more[index]),
            Self::Exits(index) => match &numbers.exits {
                Some(exits) => Cell::from(exits[index].clone()),
                None => Cell::from("-"),
            },
            Self::Memory => or_dash(&numbers.memory),
            Self::KernelMemory => or_dash(&numbers.kernel_memory),
            Self::Ratio => match (&numbers.ratio, group) {
                (Some(ratio), _) => Cell::new(ratio.value.clone(), ratio.paint),
                (None, _) if numbers.is_reference => Cell::from("1"),
                (None, Group::Floor) => Cell::default(),
                (None, Group::Scenario | Group::Debug) => Cell::from("-"),
            },
            Self::Interval => match &numbers.ratio {
                Some(ratio) => Cell::from(bounds(ratio)),
                None => Cell::default(),
            },
            Self::Change | Self::Cheaper => match &numbers.ratio {
                Some(ratio) if self == Self::Change => Cell::new(&*ratio.change, ratio.paint),
                Some(ratio) => Cell::new(ratio.change.trim_end_matches(" cheaper"), ratio.paint),
                None => Cell::default(),
            },
            Self::Bar => {
                let bar = scale.map_or_else(String::new, |scale| scale.bar(numbers.median_ns));
                Cell::from(bar)
            }
        }
    }
}

fn bounds(ratio: &RatioCells) -> String {
    match &ratio.interval {
        Some([low, high]) => format!("[{low}, {high}]"),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
#[path = "terminal_test.rs"]
mod tests;
