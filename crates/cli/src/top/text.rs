//! The tables of `vmbell top`. Without long names they are 80 columns wide.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::columns;
use super::costs::HINT;
use super::table::Table;
use super::{cpu_seconds, halts, optional, reasons, sampled};
use vmbell_report::shortened;
use vmbell_report::units::plural;
use vmbell_top::bpf::Metric;
use vmbell_top::model::{Address, Eventfd, Irqfd, NameSource, Space, Vm};
use vmbell_top::process::Holder;
use vmbell_top::rates::per_second;

/// What is shown without VMs.
pub(super) const NO_VM: &str = "no VM runs on KVM here";

/// How many other processes that have an eventfd are shown.
const HOLDERS: usize = 2;
/// How many addresses and vCPUs of a VM are shown.
const MOST: usize = 8;

/// Shows a table with its title above it and its notes below it. Names are cut if they do not fit into lines of this width.
pub(super) fn table(table: &Table, width: Option<usize>) -> String {
    let mut out = title(table);
    match table.vms.is_empty() {
        true => out += &format!("{NO_VM}\n"),
        false => out += &vm_table(table, width),
    }
    for part in parts(&table.vms, table, MOST) {
        out += &part;
    }
    out + &notes(table)
}

/// The tables below that of VMs, with at most this number of addresses, and of vCPUs, of each VM.
pub(super) fn parts(vms: &[Vm], table: &Table, most: usize) -> [String; 6] {
    [
        halts::table(vms, table.seconds),
        reasons::table(vms, table.seconds, most),
        address_table(vms, table, most),
        sampled::table(vms, most),
        irqfd_table(vms, table),
        optional::advice(vms, table.costs.as_ref(), table.seconds),
    ]
}

fn title(table: &Table) -> String {
    format!(
        "vmbell top: {}, {:.2} s, by {}\n\n",
        plural(table.vms.len(), "VM"),
        table.seconds,
        table.sources.join(" and ")
    )
}

/// An empty line, the notes, and an empty line.
fn notes(table: &Table) -> String {
    let hint = table.costs.is_none().then_some(HINT);
    let notes = table.notes.iter().map(String::as_str).chain(hint);
    let mut out: String = notes.map(|note| format!("\n{note}")).collect();
    if !out.is_empty() {
        out += "\n";
    }
    out + "\n"
}

fn vm_table(table: &Table, width: Option<usize>) -> String {
    let name = columns::name_width(&table.vms, width);
    let mut out = columns::line(name, |column| column.title().to_owned()) + "\n";
    for vm in &table.vms {
        out += &columns::line(name, |column| column.cell(vm, table.seconds));
        out.push('\n');
    }
    out
}

fn address_table(vms: &[Vm], table: &Table, most: usize) -> String {
    let seconds = table.seconds;
    let mut out = String::new();
    for vm in vms {
        let has_rings = vm.counts.contains_key(&Metric::Rings);
        let rings = |count| rate(has_rings.then_some(count), seconds);
        for address in vm.addresses.iter().take(most) {
            let row = format!(
                "{:>7} {:<23} {:<8} {:>7} {:>7}{} {}",
                vm.pid,
                place(address),
                accesses(address),
                rate(Some(address.to_vmm), seconds),
                rings(address.rings),
                optional::cells(vm, address, table.costs.as_ref(), seconds),
                what(address)
            );
            out += row.trim_end();
            out.push('\n');
        }
        let rest = vm.addresses.iter().skip(most);
        let sum = |count: fn(&Address) -> u64| rest.clone().map(count).sum();
        if vm.addresses.len() > most {
            let _ = writeln!(
                out,
                "{:>7} {:<23} {:<8} {:>7} {:>7}",
                vm.pid,
                format!("{} more", vm.addresses.len() - most),
                "",
                rate(Some(sum(|address| address.to_vmm)), seconds),
                rings(sum(|address| address.rings))
            );
        }
        for (reason, count) in &vm.reasons {
            let count = rate(Some(*count), seconds);
            let none = rings(0);
            let _ = writeln!(
                out,
                "{:>7} {:<23} {:<8} {count:>7} {none:>7}",
                vm.pid,
                shortened(reason, 23),
                ""
            );
        }
    }
    if out.is_empty() {
        return out;
    }
    let titles = format!(
        "\n{:>7} {:<23} {:<8} {:>7} {:>7}{} {}\n",
        "PID",
        "ADDRESS OR REASON",
        "ACCESS",
        "VMM/s",
        "RINGS/s",
        optional::titles(&vms[0], table.costs.is_some()),
        "WHAT"
    );
    titles + &out
}

fn irqfd_table(vms: &[Vm], table: &Table) -> String {
    let mut out = String::new();
    for vm in vms {
        for irqfd in &vm.irqfds {
            let _ = writeln!(
                out,
                "{:>7} {:>5} {:>7} {:>8} {}",
                vm.pid,
                irqfd.gsi,
                rate(Some(irqfd.count), table.seconds),
                rate(Some(irqfd.by_worker), table.seconds),
                signaller(irqfd, &table.threads)
            );
        }
    }
    if out.is_empty() {
        return out;
    }
    let titles = format!(
        "\n{:>7} {:>5} {:>7} {:>8} {}\n",
        "PID", "GSI", "IRQFD/s", "WORKER/s", "FIRST SIGNALLED BY"
    );
    titles + &out
}

pub(super) fn place(address: &Address) -> String {
    format!("{} {:#x}", space(address.space), address.address)
}

/// The kind of an address in a word.
pub(super) fn space(space: Space) -> String {
    match space {
        Space::Port => "port".to_owned(),
        Space::Mmio => "mmio".to_owned(),
        Space::Msr => "msr".to_owned(),
        Space::Bus(bus) => format!("bus{bus}"),
    }
}

/// `w2` is a write of two bytes; without a number the size is not known.
pub(super) fn accesses(address: &Address) -> String {
    let each = address.accesses.iter().map(|(is_write, size)| {
        let direction = if *is_write { "w" } else { "r" };
        match size {
            0 => direction.to_owned(),
            size => format!("{direction}{size}"),
        }
    });
    each.collect::<Vec<_>>().join(",")
}

pub(super) fn what(address: &Address) -> String {
    let mut parts = Vec::new();
    if let Some(name) = &address.name {
        parts.push(match name.source {
            NameSource::Table => name.text.clone(),
            NameSource::Guess => format!("{}?", name.text),
        });
    }
    parts.extend(address.eventfds.iter().map(eventfd));
    parts.join(", ")
}

/// The VMM's descriptor, what waits for the eventfd in the kernel, and the other processes that have it.
fn eventfd(eventfd: &Eventfd) -> String {
    let holder = |holder: &Holder| format!("{} ({})", holder.name, holder.pid);
    let shown = eventfd.holders.iter().take(HOLDERS).map(holder);
    let mut holders: Vec<String> = shown.collect();
    if eventfd.holders.len() > HOLDERS {
        holders.push(format!("{} more", eventfd.holders.len() - HOLDERS));
    }
    let holders = holders.join(", ");
    let text = match (eventfd.fd, holders.is_empty()) {
        (Some(fd), true) => format!("fd {fd}"),
        (Some(fd), false) => format!("fd {fd}, also {holders}"),
        (None, true) => format!("eventfd {}, not open in the VMM", eventfd.id),
        (None, false) => format!("eventfd {} of {holders}", eventfd.id),
    };
    match &eventfd.waiter {
        None => text,
        Some(waiter) => {
            let thread = waiter.thread.map(|thread| format!(" ({thread})"));
            format!("{text} to {}{}", waiter.name, thread.unwrap_or_default())
        }
    }
}

fn signaller(irqfd: &Irqfd, threads: &BTreeMap<u32, String>) -> String {
    match irqfd.first_signaller {
        None => "-".to_owned(),
        Some(thread) => {
            let name = threads.get(&thread).map(String::as_str);
            format!("{} ({thread})", name.unwrap_or("a thread that has ended"))
        }
    }
}

/// CPU time as a share of a core; `-` if it is not known.
pub(super) fn core(ticks: Option<u64>, seconds: f64) -> String {
    let share = |ticks| {
        if seconds > 0.0 {
            cpu_seconds(ticks) / seconds
        } else {
            0.0
        }
    };
    ticks.map_or("-".to_owned(), |ticks| format!("{:.2}", share(ticks)))
}

/// A count for each second in six letters at most; `-` if it is not known.
pub(super) fn rate(count: Option<u64>, seconds: f64) -> String {
    let Some(count) = count else {
        return "-".to_owned();
    };
    let rate = per_second(count, seconds);
    match rate {
        0.0..0.05 if count > 0 => "<0.1".to_owned(),
        0.05..9.95 if count > 0 => format!("{rate:.1}"),
        0.0..9_999.5 => format!("{rate:.0}"),
        0.0..99_950.0 => format!("{:.1}k", rate / 1e3),
        0.0..9_999_500.0 => format!("{:.0}k", rate / 1e3),
        _ => format!("{:.1}M", rate / 1e6),
    }
}

#[cfg(test)]
#[path = "text_test.rs"]
pub(super) mod tests;
