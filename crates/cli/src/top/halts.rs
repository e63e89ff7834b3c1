//! The table of halts: how often vCPUs halt, how long their threads poll before they sleep, and how often they are
//! kicked.

use super::cells::{of_pids, rate};
use vmbell_report::{Cell, Column, Table};
use vmbell_top::bpf::Metric;
use vmbell_top::model::Vm;
use vmbell_top::rates::per_second;

/// A row for each VM that halted or was kicked. Halts are KVM's statistics; kicks are counted by BPF programs.
pub(super) fn table(vms: &[Vm], seconds: f64) -> Table {
    let kicks = |vm: &Vm| vm.counts.get(&Metric::Kicks).copied();
    let has_halted =
        |vm: &&Vm| statistic(vm, "halt_exits").unwrap_or(0) + kicks(vm).unwrap_or(0) > 0;
    let vms: Vec<&Vm> = vms.iter().filter(has_halted).collect();
    let mut table = of_pids(vms.iter().map(|vm| vm.pid));
    let mut add = |title, cell: &dyn Fn(&Vm) -> String| {
        let cells = vms.iter().map(|vm| Some(Cell::from(cell(vm))));
        table.add(Column::numbers(title), cells);
    };
    let rate_of = |name| move |vm: &Vm| rate(statistic(vm, name), seconds);
    add("HALTS/s", &rate_of("halt_exits"));
    add("POLLS/s", &rate_of("halt_attempted_poll"));
    add("IN TIME", &|vm| {
        share(
            statistic(vm, "halt_successful_poll"),
            statistic(vm, "halt_attempted_poll"),
        )
    });
    add("POLL CORE", &|vm| {
        core(
            statistic(vm, "halt_poll_success_ns"),
            statistic(vm, "halt_poll_fail_ns"),
            seconds,
        )
    });
    add("WAKES/s", &rate_of("halt_wakeup"));
    add("KICKS/s", &|vm| rate(kicks(vm), seconds));
    table
}

fn statistic(vm: &Vm, name: &str) -> Option<u64> {
    vm.statistics.as_ref()?.get(name).copied()
}

/// A share; `-` if the whole is 0 or unknown.
fn share(part: Option<u64>, all: Option<u64>) -> String {
    match part.zip(all) {
        Some((part, all)) if all > 0 => {
            let share = per_second(part, 1.0) / per_second(all, 1.0);
            // A poll can end before it is counted.
            format!("{:.0}%", share.min(1.0) * 100.0)
        }
        _ => "-".to_owned(),
    }
}

/// CPU time of successful and unsuccessful polls, in cores.
fn core(in_time: Option<u64>, in_vain: Option<u64>, seconds: f64) -> String {
    match in_time.zip(in_vain) {
        Some((in_time, in_vain)) => {
            format!("{:.2}", per_second(in_time + in_vain, seconds) / 1e9)
        }
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn rows(vm: Vm) -> Vec<String> {
        let cells = table(&[vm], 2.0).columns.into_iter();
        cells.map(|column| column.cells[0].text.clone()).collect()
    }

    #[test]
    fn halts_and_the_polls_before_them_are_those_of_a_second() {
        let statistics = BTreeMap::from([
            ("halt_exits", 2000),
            ("halt_attempted_poll", 1800),
            ("halt_successful_poll", 900),
            ("halt_poll_success_ns", 60_000_000),
            ("halt_poll_fail_ns", 40_000_000),
            ("halt_wakeup", 1100),
        ]);
        let vm = Vm {
            pid: 4711,
            statistics: Some(statistics),
            counts: BTreeMap::from([(Metric::Kicks, 3000)]),
            ..Vm::default()
        };
        let idle = Vm {
            counts: BTreeMap::from([(Metric::Kicks, 0)]),
            ..Vm::default()
        };
        let expected = ["4711", "1000", "900", "50%", "0.05", "550", "1500"];
        assert_eq!(rows(vm), expected);
        assert!(table(&[idle], 2.0).is_empty());
    }

    #[test]
    fn a_statistic_that_is_missing_is_a_dash() {
        let vm = Vm {
            counts: BTreeMap::from([(Metric::Kicks, 20)]),
            ..Vm::default()
        };
        assert_eq!(rows(vm), ["0", "-", "-", "-", "-", "-", "10"]);
        // Without polls, the share of successful polls is unknown.
        let vm = Vm {
            statistics: Some(BTreeMap::from([
                ("halt_exits", 2),
                ("halt_attempted_poll", 0),
                ("halt_successful_poll", 0),
            ])),
            ..Vm::default()
        };
        assert_eq!(rows(vm), ["0", "1.0", "0", "-", "-", "-", "-"]);
    }
}
