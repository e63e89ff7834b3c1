//! The tables below the table of VMs. The first column of each is a VM's PID, which the live screen leaves out.

use std::collections::BTreeMap;

use super::cells::{of_pids, rate};
use super::interval::TopInterval;

use super::{addresses, halts, reasons};
use vmbell_report::{Cell, Column, Table};
use vmbell_top::advice;
use vmbell_top::model::{Irqfd, Vm};

/// The tables that have rows, with at most `most` addresses and vCPUs per VM.
pub(super) fn parts(vms: &[Vm], interval: &TopInterval, most: usize) -> Vec<Table> {
    let seconds = interval.seconds;
    let tables = [
        halts::table(vms, seconds),
        reasons::table(vms, seconds, most),
        addresses::table(vms, interval, most),
        addresses::sampled(vms, most),
        irqfds(vms, interval),
        cheaper(vms, interval),
    ];
    tables
        .into_iter()
        .filter(|table| !table.is_empty())
        .collect()
}

fn irqfds(vms: &[Vm], interval: &TopInterval) -> Table {
    let seconds = interval.seconds;
    let rows = || {
        vms.iter()
            .flat_map(|vm| vm.irqfds.iter().map(move |irqfd| (vm, irqfd)))
    };
    let mut table = of_pids(rows().map(|(vm, _)| vm.pid));
    let mut add = |column, cell: &dyn Fn(&Irqfd) -> String| {
        table.add(
            column,
            rows().map(|(_, irqfd)| Some(Cell::from(cell(irqfd)))),
        );
    };
    add(Column::numbers("GSI"), &|irqfd| irqfd.gsi.to_string());
    add(Column::numbers("IRQFD/s"), &|irqfd| {
        rate(Some(irqfd.count), seconds)
    });
    add(Column::numbers("WORKER/s"), &|irqfd| {
        rate(Some(irqfd.by_worker), seconds)
    });
    add(Column::words("FIRST SIGNALLED BY"), &|irqfd| {
        signaller(irqfd, &interval.threads)
    });
    table
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

/// What would cost less.
fn cheaper(vms: &[Vm], interval: &TopInterval) -> Table {
    let costs = interval.costs.as_ref();
    let advice = costs.map(|costs| advice::advice(vms, costs, interval.seconds));
    let advice = advice.unwrap_or_default();
    let mut table = of_pids(advice.iter().map(|advice| advice.pid));
    let texts = advice.iter().map(|advice| Some(Cell::from(&advice.text)));
    table.add(Column::words("WHAT WOULD COST LESS"), texts);
    table
}

#[cfg(test)]
mod tests {
    use vmbell_top::bpf::Metric;
    use vmbell_top::costs::Costs;

    use super::*;

    #[test]
    fn advice_is_by_two_rows_of_a_report() {
        let vm = Vm {
            pid: 4711,
            counts: [(Metric::Messages, 10_000), (Metric::Irqfds, 0)].into(),
            ..Vm::default()
        };
        let rows = [
            ("msi-to-running", 5000.0),
            ("irqfd-edge-to-running", 3000.0),
        ];
        let costs = Costs::new(rows.map(|(name, time)| (name.to_owned(), time)));
        let of = |costs| {
            let interval = TopInterval {
                costs,
                seconds: 1.0,
                ..TopInterval::default()
            };
            cheaper(std::slice::from_ref(&vm), &interval)
        };
        let table = of(Some(costs));
        let cells: Vec<&str> = table
            .columns
            .iter()
            .map(|column| &*column.cells[0].text)
            .collect();
        assert_eq!(cells[0], "4711");
        assert!(
            cells[1].starts_with("10000 MSIs by KVM_SIGNAL_MSI a second, "),
            "{cells:?}"
        );
        assert!(of(Some(Costs::default())).is_empty() && of(None).is_empty());
    }
}
