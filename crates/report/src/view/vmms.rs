//! The report of `vmbell bench vmms` and `bench net`: the machine that each VMM made, then one table with a column for
//! each VMM and a line for each path. The least number of each line is marked.

use super::Look;
use super::excuses::excuses;
use super::header::{ended_early, host, median_title, mitigations, timing, tool};
use super::{vmm_counts, vmm_exits};
use crate::table::{Block, Cell, Column, Overflow, Paint, Table};
use crate::units::{plural, plural_of};
use crate::{Report, Row, Status, Timing, Vmm, VmmDevice, VmmGuest, cpu_list, time_unit, units};

const BEST: &str = "* the least of its row";
pub(crate) const EMULATED: &str =
    "‡ on an emulated CPU: its times say nothing about hardware, so they are not compared";
const RATIOS: &str = "ratios to the first column; below 1 = less";

pub(super) fn blocks(report: &Report, look: Look) -> Vec<Block> {
    let mut blocks = vec![Block::Facts(labels(report))];
    let columns = measured(report);
    let names = names(report);
    let what = match look.ratios {
        true => "ratio",
        false => median_title(report),
    };
    blocks.extend(table(&columns, what, &names, |vmm, name| {
        let number = number(report, vmm, name, look)?;
        Some(match is_least(report, &columns, vmm, name) {
            true => Cell {
                mark: "*",
                ..Cell::new(number, Paint::Green)
            },
            false => Cell::from(number),
        })
    }));
    let notes = footnotes(report, &columns, look.ratios).into_iter();
    blocks.extend(notes.map(|note| Block::Note(note.to_owned())));
    blocks.extend(vmm_exits::blocks(report));
    blocks.extend(vmm_counts::blocks(report));
    blocks.extend(shared_excuses(report).iter().map(SharedExcuse::block));
    blocks
}

/// A table with a column for each VMM and a line for each name; `None` if it would be empty.
pub(super) fn table(
    vmms: &[&Vmm],
    what: &str,
    names: &[&str],
    cell: impl Fn(&Vmm, &str) -> Option<Cell>,
) -> Option<Block> {
    let mut table = Table {
        overflow: Overflow::Continue,
        ..Table::new(what, names.iter().copied())
    };
    for vmm in vmms {
        let cells = names.iter().map(|name| cell(vmm, name));
        table.add(Column::numbers(title(vmm)), cells);
    }
    (table.columns.len() > 1).then_some(Block::Table(table))
}

/// Rows that were not measured for the same reason, and the VMMs on which they were not.
struct SharedExcuse<'r> {
    rows: Vec<&'r str>,
    vmms: Vec<&'r str>,
    reason: &'r str,
}

impl SharedExcuse<'_> {
    fn block(&self) -> Block {
        let (vmms, rows) = (self.vmms.join(", "), self.rows.join(", "));
        let what = Cell::new(format!("not on {vmms}: {rows}"), Paint::Yellow);
        Block::Detail(what, self.reason.to_owned())
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

/// What readers must know about the host and about each VMM, as labels and texts.
pub(crate) fn labels(report: &Report) -> Vec<(String, String)> {
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
    // If the number of operations differs between rows, the samples are whole runs.
    let each = match report.plan.ops {
        Some(ops) => format!(
            "{} of {} of each row, the VMMs in turns",
            plural_of(report.plan.runs, "batch", "batches"),
            plural(ops, "operation")
        ),
        None => format!("{} of each VMM, in turns", plural(report.plan.runs, "boot")),
    };
    // Older reports have no seed for VMMs: each turn had the same order.
    let order = match report.seed {
        0 => String::new(),
        seed => format!(" in random order (seed {seed})"),
    };
    let pinned = match report.cpus.as_slice() {
        [] => String::new(),
        cpus => format!(", on CPU {}", cpu_list::Display(cpus)),
    };
    format!(
        "{each}{order}{pinned}, {:.1} s in all{}",
        report.duration,
        ended_early(report)
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
pub(crate) fn measured(report: &Report) -> Vec<&Vmm> {
    report.vmms().iter().filter(|vmm| vmm.boots > 0).collect()
}

/// The names of all rows with a number, in the order that they have in the VMMs.
pub(crate) fn names(report: &Report) -> Vec<&str> {
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

/// The lowest median of a row; `None` if fewer than two VMMs can be compared.
fn best(report: &Report, columns: &[&Vmm], name: &str) -> Option<f64> {
    let real = columns.iter().filter(|vmm| !vmm.emulated);
    let medians: Vec<f64> = real.filter_map(|vmm| median(report, vmm, name)).collect();
    let least = medians.iter().copied().min_by(f64::total_cmp);
    least.filter(|_| medians.len() > 1)
}

/// Whether a VMM has the least median of a row.
pub(crate) fn is_least(report: &Report, columns: &[&Vmm], vmm: &Vmm, name: &str) -> bool {
    let best = best(report, columns, name);
    best.is_some() && median(report, vmm, name) == best && !vmm.emulated
}

fn title(vmm: &Vmm) -> String {
    let mark = if vmm.emulated { "‡" } else { "" };
    format!("{}{mark}", vmm.name)
}

/// The median, or its ratio to the first VMM's median.
fn number(report: &Report, vmm: &Vmm, name: &str, look: Look) -> Option<String> {
    let row = row(report, vmm, name)?;
    if !look.ratios {
        return Some(time_unit::measured(row.median()?, report, look.unit));
    }
    let columns = measured(report);
    let is_first = columns.first().is_some_and(|first| first.name == vmm.name);
    match row.ratio() {
        Some(ratio) => Some(units::ratio(ratio.value)),
        None => (is_first && row.is_ok()).then(|| "1".to_owned()),
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
#[path = "vmms_test.rs"]
mod tests;
