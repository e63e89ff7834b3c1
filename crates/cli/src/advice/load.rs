//! What else takes CPU time during a measurement: other programs, the hypervisor, a quota.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use super::finding::{Finding, Severity};
use super::quota;
use super::tree::HostFiles;
use vmbell_report::{cpu_list, units};

const STAT: &str = "/proc/stat";
const CPUS: &str = "/sys/devices/system/cpu";
/// How long the CPUs are watched.
const WATCHED: Duration = Duration::from_millis(300);
/// Above this share of stolen time, runs differ because of it.
const STOLEN: f64 = 0.005;
/// If a sibling is busy for more than this share, it takes execution units and caches that both threads use.
const BUSY: f64 = 0.05;

/// The ticks of a CPU since the host's start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ticks {
    idle: u64,
    steal: u64,
    all: u64,
}

impl Ticks {
    fn since(self, earlier: Self) -> Self {
        Self {
            idle: self.idle.saturating_sub(earlier.idle),
            steal: self.steal.saturating_sub(earlier.steal),
            all: self.all.saturating_sub(earlier.all),
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "far fewer ticks than 2^53")]
    fn share(self, part: u64) -> f64 {
        if self.all == 0 {
            0.0
        } else {
            part as f64 / self.all as f64
        }
    }
}

/// Parses the lines `cpuN user nice system idle iowait irq softirq steal ...`; user and nice already include the
/// remaining fields.
fn ticks(stat: &str) -> BTreeMap<usize, Ticks> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).take(8).collect();
        let at = |index: usize| numbers.get(index).copied().unwrap_or_default();
        let all = numbers
            .iter()
            .fold(0_u64, |sum, ticks| sum.saturating_add(*ticks));
        let idle = at(3).saturating_add(at(4));
        Some((
            cpu,
            Ticks {
                idle,
                steal: at(7),
                all,
            },
        ))
    };
    stat.lines().filter_map(line).collect()
}

/// Returns the findings, after watching the CPUs for a moment. This process may use the CPUs `used`.
pub(super) fn find(tree: &HostFiles, used: &[usize]) -> Vec<Finding> {
    let stat = || tree.text(STAT).map(|text| ticks(&text.unwrap_or_default()));
    let moment = stat().and_then(|before| {
        thread::sleep(WATCHED);
        Ok((before, stat()?))
    });
    let mut found = match moment {
        Ok((before, after)) => watched(tree, used, &before, &after),
        Err(error) => vec![Finding::untold(
            "others take CPU time",
            STAT,
            &error.to_string(),
        )],
    };
    found.extend(quota::find(tree));
    found
}

/// The findings of one interval.
fn watched(
    tree: &HostFiles,
    used: &[usize],
    before: &BTreeMap<usize, Ticks>,
    after: &BTreeMap<usize, Ticks>,
) -> Vec<Finding> {
    let now = |cpu: usize| Some(after.get(&cpu)?.since(*before.get(&cpu)?));
    let mut found = Vec::new();
    let sum = |ticks: &mut dyn Iterator<Item = Ticks>| {
        ticks.fold(Ticks::default(), |sum, ticks| Ticks {
            idle: sum.idle.saturating_add(ticks.idle),
            steal: sum.steal.saturating_add(ticks.steal),
            all: sum.all.saturating_add(ticks.all),
        })
    };
    let moment = sum(&mut after.keys().filter_map(|cpu| now(*cpu)));
    let passed = sum(&mut after.values().copied());
    let stolen_now = moment.share(moment.steal);
    let stolen = passed.share(passed.steal);
    if stolen_now.max(stolen) > STOLEN {
        // Time stolen long ago says little about the next measurement.
        let severity = if stolen_now > STOLEN {
            Severity::Distorts
        } else {
            Severity::Note
        };
        found.push(
            Finding::new(
                severity,
                ("the hypervisor gives this host's CPU time to others (steal)", STAT),
                "a run that loses the CPU takes longer, which causes outliers and wide spreads",
                "measure at another time, on dedicated CPUs, or with more runs; to compare, measure in turns (--interleave)",
            )
            .costing(format!(
                "{} of the time within {WATCHED:?}, {} since this host was started",
                units::percent(stolen_now),
                units::percent(stolen)
            )),
        );
    }
    let mut busy: Vec<usize> = used
        .iter()
        .flat_map(|cpu| siblings(tree, *cpu))
        .filter(|cpu| now(*cpu).is_some_and(|ticks| 1.0 - ticks.share(ticks.idle) > BUSY))
        .collect();
    busy.sort_unstable();
    busy.dedup();
    if !busy.is_empty() {
        let most = busy
            .iter()
            .filter_map(|cpu| now(*cpu))
            .map(|ticks| 1.0 - ticks.share(ticks.idle));
        let most = most.fold(0.0, f64::max);
        found.push(
            Finding::new(
                Severity::Distorts,
                (
                    format!("CPU {} shares a core with another one and is busy", cpu_list::Display(&busy)),
                    format!("{STAT}, {CPUS}/cpu*/topology/thread_siblings_list"),
                ),
                "two threads of a core share its units and caches, so the load of one changes what is measured on the other",
                &format!("keep other work off them, or switch them off: echo off > {CPUS}/smt/control"),
            )
            .costing(format!("up to {} busy within {WATCHED:?}", units::percent(most))),
        );
    }
    found
}

/// The other threads on this CPU's core.
fn siblings(tree: &HostFiles, cpu: usize) -> Vec<usize> {
    let file = format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list");
    let list = tree.line(&file).ok().flatten();
    let all = list
        .and_then(|list| cpu_list::parse(&list).ok())
        .unwrap_or_default();
    all.into_iter().filter(|other| *other != cpu).collect()
}

#[cfg(test)]
#[path = "load_test.rs"]
mod tests;
