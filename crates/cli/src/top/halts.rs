//! The table of halts: how often vCPUs halt, how long their threads poll before they sleep, and how often they are kicked.

use std::fmt::Write;

use super::text::rate;
use vmbell_top::bpf::Metric;
use vmbell_top::model::Vm;
use vmbell_top::rates::per_second;

/// A row for each VM that halted or was kicked, of KVM's statistics; kicks are counted by a program.
pub(super) fn table(vms: &[Vm], seconds: f64) -> String {
    let mut out = String::new();
    for vm in vms {
        let statistic = |name| vm.statistics.as_ref()?.get(name).copied();
        let kicks = vm.counts.get(&Metric::Kicks).copied();
        if statistic("halt_exits").unwrap_or(0) + kicks.unwrap_or(0) == 0 {
            continue;
        }
        let polls = statistic("halt_attempted_poll");
        let _ = writeln!(
            out,
            "{:>7} {:>7} {:>7} {:>8} {:>9} {:>7} {:>7}",
            vm.pid,
            rate(statistic("halt_exits"), seconds),
            rate(polls, seconds),
            share(statistic("halt_successful_poll"), polls),
            core(
                statistic("halt_poll_success_ns"),
                statistic("halt_poll_fail_ns"),
                seconds
            ),
            rate(statistic("halt_wakeup"), seconds),
            rate(kicks, seconds),
        );
    }
    if out.is_empty() {
        return out;
    }
    let titles = format!(
        "\n{:>7} {:>7} {:>7} {:>8} {:>9} {:>7} {:>7}\n",
        "PID", "HALTS/s", "POLLS/s", "IN TIME", "POLL CORE", "WAKES/s", "KICKS/s"
    );
    titles + &out
}

/// `-` if there was nothing to share, or if it is not known.
fn share(part: Option<u64>, all: Option<u64>) -> String {
    match part.zip(all) {
        Some((part, all)) if all > 0 => {
            let share = per_second(part, 1.0) / per_second(all, 1.0);
            // A poll can end before it is counted as one.
            format!("{:.0}%", share.min(1.0) * 100.0)
        }
        _ => "-".to_owned(),
    }
}

/// CPU time of polls, in time and in vain. The unit is cores.
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
        let table = table(&[vm], 2.0);
        let row = table.lines().last().unwrap();
        row.split_whitespace().map(str::to_owned).collect()
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
        assert_eq!(table(&[idle], 2.0), "");
    }

    #[test]
    fn a_statistic_that_is_missing_is_a_dash() {
        let vm = Vm {
            counts: BTreeMap::from([(Metric::Kicks, 20)]),
            ..Vm::default()
        };
        assert_eq!(rows(vm), ["0", "-", "-", "-", "-", "-", "10"]);
        // Without polls there is no share of them.
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
