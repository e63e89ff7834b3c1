//! The report of `vmbell bench vmms` on a terminal and in Markdown: the machine that each VMM made, then one table with a
//! column for each VMM and a line for each path, the least number of each line marked.

use std::fmt::Write;

use super::cells::excuses;
use super::columns::{Cell, CellRow, Paint, layout, width};
use super::header::{host, median_title, mitigations, timing, tool};
use super::markdown::escape;
use super::text::{self, pad, wrap};
use super::time_unit::{self, TimeUnit};
use super::units::{plural, plural_of};
use super::{
    Look, Report, Row, Status, Timing, Vmm, VmmDevice, VmmGuest, cpu_list, units, vmm_counts,
    vmm_exits,
};

const BEST: &str = "* the least of its row";
pub(super) const EMULATED: &str =
    "‡ on an emulated CPU: its times say nothing about hardware, so they are not compared";
const RATIOS: &str = "ratios to the first column; below 1 = less";

/// Writes `report` for a terminal.
pub(super) fn terminal(report: &Report, look: Look) -> String {
    let mut text = String::new();
    let labels = labels(report);
    let widest = labels.iter().map(|(label, _)| text::width(label)).max();
    let widest = widest.unwrap_or_default();
    for (label, line) in &labels {
        let line = wrap(line, widest + 2, look.width);
        let label = Paint::Dim.apply(&pad(label, widest), look.color);
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{label}  {line}");
    }
    let columns: Vec<&Vmm> = measured(report);
    let names = names(report);
    for block in blocks(report, &columns, &names, look) {
        text.push('\n');
        text.push_str(&layout(&block, look.color));
    }
    for note in footnotes(report, &columns, look.ratios) {
        let note = wrap(note, 0, look.width);
        let _ = writeln!(text, "{}", Paint::Dim.apply(&note, look.color));
    }
    text.push_str(&vmm_exits::terminal(report, look));
    text.push_str(&vmm_counts::terminal(report, look));
    for (index, excuse) in shared_excuses(report).iter().enumerate() {
        let gap = if index == 0 { "\n" } else { "" };
        let what = wrap(&excuse.what(), 2, look.width);
        let what = Paint::Yellow.apply(&what, look.color);
        let _ = writeln!(
            text,
            "{gap}{what}\n  {}",
            wrap(excuse.reason, 2, look.width)
        );
    }
    text
}

/// Writes `report` as Markdown.
pub(super) fn markdown(report: &Report, unit: Option<TimeUnit>) -> String {
    let mut text = String::new();
    for (label, line) in labels(report) {
        let _ = writeln!(text, "- **{}**: {}", escape(&label), escape(&line));
    }
    let columns = measured(report);
    if !columns.is_empty() {
        let _ = write!(text, "\n| {} |", median_title(report));
        for vmm in &columns {
            let _ = write!(text, " {} |", escape(&title(vmm)));
        }
        let _ = writeln!(text, "\n|:---|{}", "---:|".repeat(columns.len()));
    }
    for name in names(report) {
        let _ = write!(text, "| `{name}` |");
        let best = best(report, &columns, name);
        for vmm in &columns {
            let median = median(report, vmm, name);
            let number =
                median.map_or_else(|| "-".to_owned(), |m| time_unit::measured(m, report, unit));
            let _ = match median {
                Some(_) if is_best(vmm, median, best) => write!(text, " **{number}** |"),
                _ => write!(text, " {number} |"),
            };
        }
        text.push('\n');
    }
    for note in footnotes(report, &columns, false) {
        let note = if note == BEST {
            "bold: the least of its row"
        } else {
            note
        };
        let _ = writeln!(text, "\n{}", escape(note));
    }
    text.push_str(&vmm_exits::markdown(report));
    text.push_str(&vmm_counts::markdown(report));
    for excuse in shared_excuses(report) {
        let what = escape(&excuse.what());
        let _ = writeln!(text, "\n{what}: {}", escape(excuse.reason));
    }
    text
}

/// Rows that were not measured for one reason, and the VMMs of which that is true.
struct SharedExcuse<'r> {
    rows: Vec<&'r str>,
    vmms: Vec<&'r str>,
    reason: &'r str,
}

impl SharedExcuse<'_> {
    fn what(&self) -> String {
        format!("not on {}: {}", self.vmms.join(", "), self.rows.join(", "))
    }
}

fn shared_excuses(report: &Report) -> Vec<SharedExcuse<'_>> {
    let mut shared: Vec<SharedExcuse<'_>> = Vec::new();
    for excuse in excuses(report) {
        let is_same = |other: &&mut SharedExcuse<'_>| {
            other.rows == excuse.names && other.reason == excuse.reason
        };
        match shared.iter_mut().find(is_same) {
            Some(other) => other.vmms.push(excuse.backend),
            None => shared.push(SharedExcuse {
                rows: excuse.names,
                vmms: vec![excuse.backend],
                reason: excuse.reason,
            }),
        }
    }
    shared
}

/// What a reader must know of the host and of each VMM, as labels and texts.
pub(super) fn labels(report: &Report) -> Vec<(String, String)> {
    let mut lines = vec![
        ("tool".to_owned(), tool(report)),
        ("host".to_owned(), host(report)),
        ("mitigations".to_owned(), mitigations(report)),
        ("runs".to_owned(), runs(report)),
    ];
    lines.extend(timing(report).map(|text| ("timing".to_owned(), text.to_owned())));
    let vmm = |vmm: &Vmm| (vmm.name.clone(), vmm_in_words(vmm, report));
    lines.extend(report.vmms().iter().map(vmm));
    lines
}

fn runs(report: &Report) -> String {
    let early = if report.interrupted {
        "; INTERRUPTED before the end"
    } else if report.timed_out {
        "; TIME LIMIT reached before the end"
    } else {
        ""
    };
    // Where operations differ from row to row, the samples are whole runs.
    let each = match report.plan.ops {
        Some(ops) => format!(
            "{} of {} of each row, the VMMs in turns",
            plural_of(report.plan.runs, "batch", "batches"),
            plural(ops, "operation")
        ),
        None => format!("{} of each VMM, in turns", plural(report.plan.runs, "boot")),
    };
    // Before vmbell had a seed for VMMs, each turn had the same order.
    let order = match report.seed {
        0 => String::new(),
        seed => format!(" in random order (seed {seed})"),
    };
    let pinned = match report.cpus.as_slice() {
        [] => String::new(),
        cpus => format!(", on CPU {}", cpu_list::Display(cpus)),
    };
    format!(
        "{each}{order}{pinned}, {:.1} s in all{early}",
        report.duration
    )
}

fn vmm_in_words(vmm: &Vmm, report: &Report) -> String {
    let mut parts: Vec<String> = vmm.version.iter().cloned().collect();
    if let Some(guest) = &vmm.guest {
        parts.extend(guest_in_words(guest, report));
    }
    if let (Some(reason), false) = (&vmm.reason, vmm.status == Status::Ok) {
        parts.push(format!("{}: {reason}", vmm.status.name()));
    }
    if let Some(reason) = &vmm.repeated {
        parts.push(format!("a boot hung and was repeated: {reason}"));
    }
    if let Some(last) = &vmm.last_output {
        parts.push(format!("its last output: {last}"));
    }
    parts.join("; ")
}

fn guest_in_words(guest: &VmmGuest, report: &Report) -> Vec<String> {
    let cpus = match guest.cpus {
        1 => String::new(),
        cpus => format!("{cpus} x "),
    };
    let under = guest
        .hypervisor
        .as_deref()
        .unwrap_or("no hypervisor's CPUID");
    let cpu = if guest.cpu.is_empty() {
        "a CPU without a name"
    } else {
        &guest.cpu
    };
    let mut parts = vec![
        format!("boots by {}", guest.boot),
        format!("{cpus}{cpu} under {under}"),
        guest.apic.clone(),
    ];
    parts.push(match (guest.tsc_hz, &guest.tsc_source) {
        _ if report.timing == Timing::Instructions => "TSC of instructions".to_owned(),
        (Some(hz), Some(source)) => format!("TSC {:.0} MHz by {source}", hz / 1e6),
        (Some(hz), None) => format!("TSC {:.0} MHz", hz / 1e6),
        (None, _) => format!(
            "TSC frequency unknown, taken as the host's {:.0} MHz",
            report.tsc.hz / 1e6
        ),
    });
    parts.extend(guest.devices.iter().map(device_in_words));
    parts
}

fn device_in_words(device: &VmmDevice) -> String {
    let interrupt = match (&device.interrupt, device.gsi) {
        (Some(interrupt), Some(gsi)) => format!("{interrupt} on GSI {gsi}"),
        (Some(interrupt), None) => interrupt.clone(),
        (None, _) => "no interrupt".to_owned(),
    };
    format!("{} by {}, {interrupt}", device.kind, device.transport)
}

/// The VMMs that have a column.
pub(super) fn measured(report: &Report) -> Vec<&Vmm> {
    report.vmms().iter().filter(|vmm| vmm.boots > 0).collect()
}

/// The names of all rows with a number, each after the one that it follows in its VMM.
pub(super) fn names(report: &Report) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for vmm in report.vmms() {
        let mut after = 0;
        let of_it = |row: &&Row| row.backend == vmm.name && row.is_ok();
        for row in report.results.iter().filter(of_it) {
            if let Some(place) = names.iter().position(|name| *name == row.command) {
                after = place + 1;
            } else {
                names.insert(after, &row.command);
                after += 1;
            }
        }
    }
    names
}

pub(super) fn row<'r>(report: &'r Report, vmm: &Vmm, name: &str) -> Option<&'r Row> {
    let rows = &mut report.results.iter();
    rows.find(|row| row.backend == vmm.name && row.command == name)
}

fn median(report: &Report, vmm: &Vmm, name: &str) -> Option<f64> {
    row(report, vmm, name)?.median()
}

/// The least median of a row; `None` if fewer than two VMMs can be compared.
fn best(report: &Report, columns: &[&Vmm], name: &str) -> Option<f64> {
    let real = columns.iter().filter(|vmm| !vmm.emulated);
    let medians: Vec<f64> = real.filter_map(|vmm| median(report, vmm, name)).collect();
    let least = medians.iter().copied().min_by(f64::total_cmp);
    least.filter(|_| medians.len() > 1)
}

/// Whether a VMM has the least median of a row.
pub(super) fn is_least(report: &Report, columns: &[&Vmm], vmm: &Vmm, name: &str) -> bool {
    let best = best(report, columns, name);
    is_best(vmm, median(report, vmm, name), best)
}

fn is_best(vmm: &Vmm, median: Option<f64>, best: Option<f64>) -> bool {
    best.is_some() && median == best && !vmm.emulated
}

pub(super) fn title(vmm: &Vmm) -> String {
    let mark = if vmm.emulated { "‡" } else { "" };
    format!("{}{mark}", vmm.name)
}

/// The title in two lines: a name with a hyphen is broken at its first one.
fn titles(vmm: &Vmm) -> [String; 2] {
    let title = title(vmm);
    match title.split_once('-') {
        Some((first, second)) => [format!("{first}-"), second.to_owned()],
        None => [String::new(), title],
    }
}

/// The table, cut into several of as many columns as fit into a line.
fn blocks(report: &Report, columns: &[&Vmm], names: &[&str], look: Look) -> Vec<Vec<CellRow>> {
    let what = if look.ratios {
        "ratio"
    } else {
        median_title(report)
    };
    let cell = |vmm: &Vmm, name: &str| {
        let best = best(report, columns, name);
        let is_best = is_best(vmm, median(report, vmm, name), best);
        let paint = if is_best { Paint::Green } else { Paint::Plain };
        Cell::new(padded(&number(report, vmm, name, look), is_best), paint)
    };
    cut(columns, names, look.width, (what, &cell))
}

/// What stands in a VMM's column in the row of a name.
pub(super) type CellOf<'a> = &'a dyn Fn(&Vmm, &str) -> Cell;

/// A table with the title `what` and these cells, cut into several of as many columns as fit into a line.
pub(super) fn cut(
    columns: &[&Vmm],
    names: &[&str],
    limit: Option<usize>,
    (what, cell): (&str, CellOf<'_>),
) -> Vec<Vec<CellRow>> {
    let mut blocks = Vec::new();
    let mut rest = columns;
    while !rest.is_empty() && !names.is_empty() {
        let of = |count: usize| block(&rest[..count], names, what, cell);
        let fits = |count: &usize| limit.is_none_or(|limit| width(&of(*count)) <= limit);
        let count = (1..=rest.len()).rev().find(fits).unwrap_or(1);
        blocks.push(of(count));
        rest = &rest[count..];
    }
    blocks
}

fn block(columns: &[&Vmm], names: &[&str], what: &str, cell: CellOf<'_>) -> Vec<CellRow> {
    let heads: Vec<[String; 2]> = columns.iter().map(|vmm| titles(vmm)).collect();
    let mut rows: Vec<CellRow> = Vec::new();
    for (line, label) in ["", what].into_iter().enumerate() {
        let head = heads
            .iter()
            .map(|head| Cell::new(padded(&head[line], false), Paint::Bold));
        let label = Cell::new(label, Paint::Bold);
        rows.push(std::iter::once(label).chain(head).collect());
    }
    if heads.iter().all(|head| head[0].is_empty()) {
        rows.remove(0);
    }
    for name in names {
        let cells = columns.iter().map(|vmm| cell(vmm, name));
        rows.push(std::iter::once(Cell::from(*name)).chain(cells).collect());
    }
    rows
}

/// The cell's text with the mark of the best, or with a blank in its place.
pub(super) fn padded(text: &str, is_best: bool) -> String {
    format!("{text}{}", if is_best { '*' } else { ' ' })
}

fn number(report: &Report, vmm: &Vmm, name: &str, look: Look) -> String {
    let dash = || "-".to_owned();
    let Some(row) = row(report, vmm, name) else {
        return dash();
    };
    if !look.ratios {
        let text = |median| time_unit::measured(median, report, look.unit);
        return row.median().map_or_else(dash, text);
    }
    let is_first = measured(report)
        .first()
        .is_some_and(|first| first.name == vmm.name);
    match row.ratio() {
        Some(ratio) => units::ratio(ratio.value),
        None if is_first && row.is_ok() => "1".to_owned(),
        None => dash(),
    }
}

fn footnotes(report: &Report, columns: &[&Vmm], ratios: bool) -> Vec<&'static str> {
    let mut notes = Vec::new();
    let names = names(report);
    if ratios && !names.is_empty() {
        notes.push(RATIOS);
    }
    if names
        .iter()
        .any(|name| best(report, columns, name).is_some())
    {
        notes.push(BEST);
    }
    if columns.iter().any(|vmm| vmm.emulated) {
        notes.push(EMULATED);
    }
    notes
}

#[cfg(test)]
#[path = "vmm_table_test.rs"]
mod tests;
