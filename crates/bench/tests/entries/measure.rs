//! Measures entries without a time limit for all of them.

use std::sync::Arc;
use std::time::Duration;

use vmbell::sync::Mutex;
use vmbell_bench::scenario::{self, ScanValues};
use vmbell_bench::{
    BenchEntry, BenchPlan, CommandLimit, Record, SilentObserver, SubjectOptions, TickClock,
    WantedEntries, run, select,
};
use vmbell_hypervisor::{Hypervisor, SpinPolicy};
use vmbell_report::Timing;

/// The scenarios with these names.
pub(crate) fn named(
    hypervisor: &Arc<dyn Hypervisor>,
    scan: &ScanValues,
    patterns: &[&str],
) -> Vec<BenchEntry> {
    let patterns: Vec<String> = patterns.iter().map(|name| (*name).to_owned()).collect();
    let wanted = WantedEntries::Named {
        patterns: &patterns,
        companions: false,
    };
    select(scenario::entries(hypervisor, scan), wanted).unwrap()
}

/// Runs all entries in turn, `runs` times with `ops` operations, on these CPUs. A run may take as long as `timeout`.
pub(crate) fn measured(
    entries: &[BenchEntry],
    cpus: &[usize],
    [runs, ops]: [u64; 2],
    timeout: Duration,
) -> Record {
    let options = SubjectOptions {
        cpus: cpus.to_vec(),
        spin: SpinPolicy::Sleep,
        clock: TickClock::calibrate().unwrap(),
        limit: CommandLimit::none().with_run_timeout(Some(timeout)),
        timing: Timing::Native,
        marks: None,
    };
    let plan = BenchPlan {
        runs: runs.try_into().unwrap(),
        ops: Some(ops),
        ..BenchPlan::default()
    };
    let record = Mutex::new(Record::of(entries));
    run(entries, &options, &plan, &record, &mut SilentObserver);
    let record = record.into_inner();
    assert_eq!(record.stopped, None);
    record
}
