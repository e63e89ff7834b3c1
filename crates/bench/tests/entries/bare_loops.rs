//! Rows of loops with the least work around an exit.

use std::sync::Arc;
use std::time::Duration;
use vmbell::sync::Mutex;

use vmbell_bench::scenario::{self, ScanValues};
use vmbell_bench::{
    BenchPlan, CommandLimit, Record, SilentObserver, SubjectOptions, TickClock, WantedEntries, run,
    select,
};
use vmbell_hypervisor::{Hypervisor, SpinPolicy};
use vmbell_report::{Status, Timing};

/// Measures the rows in two runs of `ops` exits each.
fn measured<H>(hypervisor: &H, ops: u64, timeout: Duration) -> Record
where
    H: Hypervisor + Clone + 'static,
{
    let hypervisor: Arc<dyn Hypervisor> = Arc::new(hypervisor.clone());
    let wanted = WantedEntries::Named {
        patterns: &[format!("floor-{}-*", hypervisor.name())],
        companions: false,
    };
    let all = scenario::entries(&hypervisor, &ScanValues::default());
    let entries = select(all, wanted).unwrap();
    let options = SubjectOptions {
        cpus: vec![0],
        spin: SpinPolicy::Sleep,
        clock: TickClock::calibrate().unwrap(),
        limit: CommandLimit::none().with_run_timeout(Some(timeout)),
        timing: Timing::Native,
        marks: None,
    };
    let plan = BenchPlan {
        runs: 2,
        ops: Some(ops),
        ..BenchPlan::default()
    };
    let record = Mutex::new(Record::of(&entries));
    run(&entries, &options, &plan, &record, &mut SilentObserver);
    let record = record.into_inner();
    assert!(record.series.len() >= 2);
    record
}

fn bare_loop_makes_the_exits_that_it_is_asked_for<H>(hypervisor: &H)
where
    H: Hypervisor + Clone + 'static,
{
    for series in measured(hypervisor, 1000, kit::wait::HANG).series {
        let reason = series.reason.as_deref().unwrap_or_default();
        let result = (series.status, series.samples.len());
        assert_eq!(result, (Status::Ok, 2), "{}: {reason}", series.name);
    }
}

fn bare_loop_ends_at_its_time_limit<H>(hypervisor: &H)
where
    H: Hypervisor + Clone + 'static,
{
    for series in measured(hypervisor, 1 << 40, Duration::from_millis(300)).series {
        let reason = series.reason.as_deref().unwrap_or_default();
        assert_eq!(series.status, Status::Failed, "{}: {reason}", series.name);
        assert!(reason.contains("took longer than"), "{reason}");
    }
}

testbed::on_kvm! {
    bare_loop_makes_the_exits_that_it_is_asked_for;
    bare_loop_ends_at_its_time_limit;
}
