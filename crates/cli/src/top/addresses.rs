//! The tables of addresses: how a guest accesses each, how often these accesses reach the VMM, and what they cost.
//! Without counts by address, a table shows the accesses at which vCPUs were found in their VMM.

use super::cells::{of_pids, rate};
use super::interval::TopInterval;
use vmbell_report::{Cell, Column, Table};
use vmbell_top::address::{Address, Eventfd};
use vmbell_top::bpf::Metric;
use vmbell_top::model::Vm;
use vmbell_top::names::{NameSource, Space};
use vmbell_top::process::Holder;
use vmbell_top::rates::per_second;

/// The number of other processes with an eventfd that are shown.
const HOLDERS: usize = 2;

/// A row: an address, the sum of addresses that are not shown, or accesses without a known address.
#[derive(Default)]
struct AddressRow {
    pid: u32,
    place: String,
    accesses: String,
    to_vmm: String,
    rings: Option<String>,
    /// The time per exit in the VMM, in microseconds, and the cores used by all exits.
    vmm_time: Option<[String; 2]>,
    by_kvm: Option<String>,
    cores: Option<String>,
    what: String,
}

/// The most frequent addresses of each VM, at most `most`, and then exits without an address.
pub(super) fn table(vms: &[Vm], interval: &TopInterval, most: usize) -> Table {
    let seconds = interval.seconds;
    let mut rows = Vec::new();
    for vm in vms {
        let has_rings = vm.counts.contains_key(&Metric::Rings);
        let row = |place: String, to_vmm: u64, rings: u64| AddressRow {
            pid: vm.pid,
            place,
            to_vmm: rate(Some(to_vmm), seconds),
            rings: Some(rate(has_rings.then_some(rings), seconds)),
            ..AddressRow::default()
        };
        let shown = vm.addresses.iter().take(most);
        rows.extend(shown.map(|address| {
            row(place(address), address.to_vmm, address.rings).of(vm, address, interval)
        }));
        let rest = vm.addresses.iter().skip(most);
        if rest.len() > 0 {
            let sum = |count: fn(&Address) -> u64| rest.clone().map(count).sum();
            rows.push(row(
                format!("{} more", rest.len()),
                sum(|address| address.to_vmm),
                sum(|address| address.rings),
            ));
        }
        let reasons = vm.reasons.iter();
        rows.extend(reasons.map(|(reason, count)| row(reason.clone(), *count, 0)));
    }
    laid_out(&rows, "VMM/s")
}

/// Where each VM's vCPUs were in the VMM, for at most `most` addresses per VM.
pub(super) fn sampled(vms: &[Vm], most: usize) -> Table {
    let mut rows = Vec::new();
    for vm in vms {
        let Some(sampled) = &vm.sampled else {
            continue;
        };
        let row = |place: String, count: u64| AddressRow {
            pid: vm.pid,
            place,
            to_vmm: share(count, sampled.samples),
            ..AddressRow::default()
        };
        let shown = sampled.addresses.iter().take(most);
        rows.extend(shown.map(|address| AddressRow {
            accesses: accesses(address),
            what: what(address),
            ..row(place(address), address.to_vmm)
        }));
        let rest = sampled.addresses.iter().skip(most);
        if rest.len() > 0 {
            let place = format!("{} more", rest.len());
            rows.push(row(place, rest.map(|address| address.to_vmm).sum()));
        }
        let reasons = sampled.reasons.iter();
        rows.extend(reasons.map(|(reason, count)| row(reason.clone(), *count)));
    }
    laid_out(&rows, "IN VMM")
}

fn laid_out(rows: &[AddressRow], to_vmm: &str) -> Table {
    let mut table = of_pids(rows.iter().map(|row| row.pid));
    let mut add = |column: Column, cell: fn(&AddressRow) -> Option<String>| {
        // Empty, not a dash, if a row cannot have this number: a dash means that it was not counted.
        let cells = rows
            .iter()
            .map(|row| Some(Cell::from(cell(row).unwrap_or_default())));
        table.add(column, cells);
    };
    add(Column::words("ADDRESS OR REASON"), |row| {
        Some(row.place.clone())
    });
    add(Column::words("ACCESS"), |row| Some(row.accesses.clone()));
    add(Column::numbers(to_vmm), |row| Some(row.to_vmm.clone()));
    add(Column::numbers("RINGS/s"), |row| row.rings.clone());
    add(Column::numbers("US/EXIT"), |row| {
        Some(row.vmm_time.as_ref()?[0].clone())
    });
    add(Column::numbers("VMM CORE"), |row| {
        Some(row.vmm_time.as_ref()?[1].clone())
    });
    add(Column::numbers("KVM/s"), |row| row.by_kvm.clone());
    add(Column::numbers("CORE"), |row| row.cores.clone());
    add(Column::words("WHAT"), |row| Some(row.what.clone()));
    table
}

impl AddressRow {
    /// The row of an address: its accesses, its waiter, and the optional counts.
    fn of(self, vm: &Vm, address: &Address, interval: &TopInterval) -> Self {
        let seconds = interval.seconds;
        let is_counted = |metric| vm.counts.contains_key(&metric);
        let time = || {
            let time = per_second(address.vmm_time, 1.0);
            let each = match address.to_vmm {
                0 => "-".to_owned(),
                exits => format!("{:.1}", time / per_second(exits, 1.0) / 1e3),
            };
            let cores = per_second(address.vmm_time, seconds) / 1e9;
            [each, format!("{cores:.3}")]
        };
        Self {
            accesses: accesses(address),
            vmm_time: is_counted(Metric::VmmTime).then(time),
            by_kvm: is_counted(Metric::ByKvm).then(|| rate(Some(address.by_kvm), seconds)),
            cores: interval.costs.as_ref().map(|costs| {
                let cores = costs.cores(address, seconds);
                cores.map_or("-".to_owned(), |cores| format!("{cores:.3}"))
            }),
            what: what(address),
            ..self
        }
    }
}

fn share(count: u64, samples: u64) -> String {
    let share = per_second(count, 1.0) / per_second(samples, 1.0);
    format!("~{:.1}%", share * 100.0)
}

fn place(address: &Address) -> String {
    format!("{} {:#x}", space(address.space), address.address)
}

/// The address space, in one word.
pub(super) fn space(space: Space) -> String {
    match space {
        Space::Port => "port".to_owned(),
        Space::Mmio => "mmio".to_owned(),
        Space::Msr => "msr".to_owned(),
        Space::Bus(bus) => format!("bus{bus}"),
    }
}

/// `w2` is a write of two bytes; without a number, the size is unknown.
fn accesses(address: &Address) -> String {
    let each = address.accesses.iter().map(|(is_write, size)| {
        let direction = if *is_write { "w" } else { "r" };
        match size {
            0 => direction.to_owned(),
            size => format!("{direction}{size}"),
        }
    });
    each.collect::<Vec<_>>().join(",")
}

fn what(address: &Address) -> String {
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

/// The VMM's descriptor, what waits for the eventfd in the kernel, and the other processes that hold it.
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

#[cfg(test)]
#[path = "addresses_test.rs"]
mod tests;
