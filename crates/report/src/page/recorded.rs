//! The page of a recording of `vmbell top`: what each VM did over time, where, and why.

use std::collections::BTreeMap;

use maud::{Markup, html};
use svg::node::element::{Polyline, SVG};

use super::draw::{across, drawing, height, markup as drawn, text, upright};
use super::findings::findings;
use super::scale::ChartScale;
use crate::history::{AddressHistory, History, Interval, Rate, histories};
use crate::table::{Cell, Column, Table};
use crate::write::html::{self, document};
use crate::{Recording, TopLine, TopSource, units};

/// The maximum number of addresses of a VM that are shown.
const ADDRESSES: usize = 20;
/// The maximum number of points of a curve. If there are more intervals, means of them are drawn.
const POINTS: usize = 400;
/// The height of a curve, in pixels, and the position of its left end, in per cent.
const HEIGHT: u32 = 90;
const LEFT: f64 = 16.0;

/// Writes a recording as one page; `name` is the name of its file.
pub fn recorded_page(recording: &Recording, name: &str) -> String {
    let histories = histories(recording);
    let seconds = recording.lines.last().map_or(0.0, |line| line.seconds);
    let mut findings = findings(recording, &histories);
    let headline = findings.remove(0);
    let header = &recording.header;
    let body = html! {
        a.skip href="#vms" { "To the VMs" }
        header {
            p.where {
                span { "Recorded by vmbell top " (header.vmbell) " from " (header.started) }
                span {
                    (units::plural(histories.len(), "VM")) " in " (units::time(seconds * 1e9))
                }
                span { (header.host.kernel) ", " (header.host.cpu) ", " (header.host.cpus) " CPUs" }
            }
            h1 { (headline) }
            @if !findings.is_empty() {
                ul.answer { @for finding in &findings { li { (finding) "." } } }
            }
            @for doubt in doubts(recording) { p.doubt { (doubt) } }
        }
        main #vms {
            (overview(&histories))
            nav aria-label="VMs" { ul {
                @for (place, history) in histories.iter().enumerate() {
                    li { a href=(format!("#vm{place}")) { (title(history)) } }
                }
            } }
            @for (place, history) in histories.iter().enumerate() {
                (section(place, history, seconds))
            }
        }
        footer { p { "Made by " code { "vmbell report" } " from " code { (name) } "." } }
    };
    document(&headline, &body)
}

/// Why counts may be missing.
fn doubts(recording: &Recording) -> Vec<String> {
    let mut doubts = recording.warnings.clone();
    let Some(TopLine { bpf, counters, .. }) = recording.lines.last() else {
        return doubts;
    };
    for (name, TopSource { used, missing }) in [("bpf", bpf), ("counters", counters)] {
        let what = if *used { "not counted" } else { "not used" };
        if missing.is_empty() && !used {
            doubts.push(format!("{name}: not used"));
        }
        let each = missing.iter();
        doubts.extend(each.map(|reason| format!("{name}: {what}: {reason}")));
    }
    doubts
}

pub(super) fn title(history: &History) -> String {
    let vmm = history.vmm.as_deref().unwrap_or("a VMM that had ended");
    let name = history.name.as_ref().map(|name| format!(" {name}"));
    format!("{vmm}{} ({})", name.unwrap_or_default(), history.pid)
}

const fn words(rate: Rate) -> &'static str {
    match rate {
        Rate::Core => "CPU cores of the vCPUs",
        Rate::Exits => "VM exits a second",
        Rate::ToVmm => "Exits to the VMM a second",
        Rate::Ioeventfds => "Ioeventfds a second",
        Rate::Irqfds => "Interrupts by irqfd a second",
        Rate::Ioctls => "Other interrupts a second",
        Rate::Eois => "EOIs a second",
        Rate::PvEois => "EOIs by PV EOI a second",
    }
}

const fn title_of(rate: Rate) -> &'static str {
    match rate {
        Rate::Core => "Cores",
        Rate::Exits => "Exits/s",
        Rate::ToVmm => "To the VMM/s",
        Rate::Ioeventfds => "Ioeventfds/s",
        Rate::Irqfds => "Irqfds/s",
        Rate::Ioctls => "Other IRQs/s",
        Rate::Eois => "EOIs/s",
        Rate::PvEois => "PV EOIs/s",
    }
}

/// The means of the rates of all VMs.
fn overview(histories: &[History]) -> Markup {
    let mut table = Table {
        title: Some("Means of all VMs".to_owned()),
        ..Table::new("VM", histories.iter().map(title))
    };
    let seen = histories
        .iter()
        .map(|history| units::time(history.seconds * 1e9));
    table.add(
        Column::numbers("Seen"),
        seen.map(|text| Some(Cell::from(text))),
    );
    let vcpus = histories.iter().map(|history| history.vcpus.to_string());
    table.add(
        Column::numbers("vCPUs"),
        vcpus.map(|text| Some(Cell::from(text))),
    );
    for rate in Rate::ALL {
        let means = histories.iter().map(|history| number(history.mean(rate)));
        table.add(
            Column::numbers(title_of(rate)),
            means.map(|text| Some(Cell::from(text))),
        );
    }
    html! {
        section #overview aria-labelledby="overview-title" {
            h2 #overview-title { "Means" }
            @if histories.is_empty() { p { "No VM ran on KVM in this time." } }
            @else { (html::table(&table, &|_| None)) }
            p.note { "A dash is a count that could not be had." }
        }
    }
}

fn section(place: usize, history: &History, seconds: f64) -> Markup {
    let id = format!("vm{place}");
    let is_used = |intervals: &Vec<Interval>| intervals.iter().any(|interval| interval.rate > 0.0);
    let curves = history
        .rates
        .iter()
        .filter(|(_, intervals)| is_used(intervals));
    html! {
        section id=(id) aria-labelledby=(format!("{id}-title")) {
            h2 id=(format!("{id}-title")) { (title(history)) }
            div.grid { @for (rate, intervals) in curves { figure.chart {
                (curve(intervals, seconds))
                figcaption { (words(*rate)) ": " (number(history.mean(*rate))) " in the mean" }
            } } }
            (addresses(history))
            (reasons("Exits to the VMM without an address", &history.reasons, history))
            (reasons("VM exits by reason", &history.exits, history))
            (irqfds(history))
        }
    }
}

fn addresses(history: &History) -> Markup {
    let mut places: Vec<_> = history.addresses.iter().collect();
    places.sort_by_key(|(_, place)| {
        std::cmp::Reverse(place.exits_to_vmm + place.ioeventfds.unwrap_or(0))
    });
    let rest = places.split_off(places.len().min(ADDRESSES));
    let sum =
        |of: fn(&AddressHistory) -> Option<u64>| rest.iter().map(|(_, place)| of(place)).sum();
    let counts = |of: fn(&AddressHistory) -> Option<u64>| {
        let rest = (!rest.is_empty()).then(|| sum(of));
        places
            .iter()
            .map(|(_, place)| of(place))
            .chain(rest)
            .collect::<Vec<_>>()
    };
    let names = places
        .iter()
        .map(|((space, address), _)| format!("{space} {address:#x}"));
    let more = (!rest.is_empty()).then(|| format!("{} more", rest.len()));
    let mut table = Table::new("Address", names.chain(more));
    let to_vmm = counts(|place| Some(place.exits_to_vmm));
    add_counts(&mut table, "Exits to the VMM", &to_vmm, history);
    let ioeventfds = counts(|place| place.ioeventfds);
    add_counts(&mut table, "Ioeventfds", &ioeventfds, history);
    let what = places
        .iter()
        .map(|(_, place)| place.name.clone().unwrap_or_default());
    let what = what.chain((!rest.is_empty()).then(String::new));
    table.add(
        Column::words("What"),
        what.map(|text| Some(Cell::from(text))),
    );
    html! { @if !places.is_empty() {
        (titled("Addresses", history, table))
        p.note { "A question mark is a guess from the size and the address of a write." }
    } }
}

/// Exits by reason, the most frequent first.
fn reasons(title: &str, counts: &BTreeMap<String, u64>, history: &History) -> Markup {
    let mut counts: Vec<_> = counts.iter().filter(|(_, count)| **count > 0).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let mut table = Table::new("Reason", counts.iter().map(|(reason, _)| reason.as_str()));
    let exits: Vec<Option<u64>> = counts.iter().map(|(_, count)| Some(**count)).collect();
    add_counts(&mut table, "Exits", &exits, history);
    html! { @if !counts.is_empty() { (titled(title, history, table)) } }
}

fn irqfds(history: &History) -> Markup {
    let irqfds = &history.irqfds;
    let mut table = Table::new("GSI", irqfds.keys().map(ToString::to_string));
    for (place, name) in ["Signals", "By a worker"].into_iter().enumerate() {
        let counts: Vec<Option<u64>> = irqfds.values().map(|counts| Some(counts[place])).collect();
        add_counts(&mut table, name, &counts, history);
    }
    html! { @if !irqfds.is_empty() { (titled("Irqfds", history, table)) } }
}

/// A table with its title above it. The caption also names the VM, because each VM has such a table.
fn titled(title: &str, history: &History, table: Table) -> Markup {
    let table = Table {
        title: Some(format!("{title} of {}", self::title(history))),
        ..table
    };
    html! {
        h3 { (title) }
        (html::table(&table, &|_| None))
    }
}

/// Adds counts, and how many of them there are per second.
#[expect(clippy::cast_precision_loss, reason = "it is shown with three digits")]
fn add_counts(table: &mut Table, title: &str, counts: &[Option<u64>], history: &History) {
    let cells = counts
        .iter()
        .map(|count| Some(Cell::from(count.as_ref()?.to_string())));
    table.add(Column::numbers(title), cells);
    let rate = |count: &u64| (history.seconds > 0.0).then(|| *count as f64 / history.seconds);
    let rates = counts
        .iter()
        .map(|count| number(count.as_ref().and_then(rate)));
    table.add(
        Column::numbers("a second"),
        rates.map(|text| Some(Cell::from(text))),
    );
}

pub(super) fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(value) => units::count(value),
    }
}

/// The curve of a rate over the time of the recording.
fn curve(intervals: &[Interval], seconds: f64) -> Markup {
    let points = thinned(intervals);
    let most = points.iter().map(|point| point.rate).fold(0.0, f64::max);
    let scale = ChartScale::Linear(most.max(f64::MIN_POSITIVE) * 1.15);
    let mut drawing = drawing(HEIGHT + 28);
    for (tick, has_label) in scale.ticks() {
        let y = height(HEIGHT, scale, tick);
        drawing = drawing.add(across("rule", LEFT, 100.0, y));
        if has_label {
            let label = text("tick", LEFT - 1.5, y + 4, &number(Some(tick)));
            drawing = drawing.add(label.set("text-anchor", "end"));
        }
    }
    let ends = [
        (0.0, "start", "0 s".to_owned()),
        (seconds, "end", units::time(seconds * 1e9)),
    ];
    for (time, anchor, label) in ends {
        let x = across_at(time, seconds);
        let label = text("tick", x, HEIGHT + 25, &label);
        drawing = drawing
            .add(upright("tick", x, HEIGHT + 8, HEIGHT + 12))
            .add(label.set("text-anchor", anchor));
    }
    // A rate holds for a whole interval, so the curve has steps.
    let corners = points.iter().flat_map(|point| {
        let y = height(HEIGHT, scale, point.rate);
        [point.from, point.to].map(|time| format!("{:.2},{y}", across_at(time, seconds)))
    });
    let line = Polyline::new()
        .set("class", "curve")
        .set("points", corners.collect::<Vec<_>>().join(" "));
    let inner = SVG::new()
        .set("class", "c0")
        .set("width", "100%")
        .set("height", HEIGHT + 28)
        .set("viewBox", format!("0 0 100 {}", HEIGHT + 28))
        .set("preserveAspectRatio", "none")
        .add(line);
    drawn(&drawing.add(inner))
}

fn across_at(time: f64, seconds: f64) -> f64 {
    LEFT + time / seconds.max(f64::MIN_POSITIVE) * (100.0 - LEFT)
}

/// At most [`POINTS`] intervals, where joined intervals have their mean.
fn thinned(intervals: &[Interval]) -> Vec<Interval> {
    let each = intervals.len().div_ceil(POINTS).max(1);
    let joined = intervals.chunks(each).filter_map(|chunk| {
        let (first, last) = (chunk.first()?, chunk.last()?);
        let count: f64 = chunk
            .iter()
            .map(|interval| interval.rate * (interval.to - interval.from))
            .sum();
        let time: f64 = chunk
            .iter()
            .map(|interval| interval.to - interval.from)
            .sum();
        let (from, to, rate) = (first.from, last.to, count / time);
        Some(Interval { from, to, rate })
    });
    joined.collect()
}

#[cfg(test)]
#[path = "recorded_test.rs"]
mod tests;
