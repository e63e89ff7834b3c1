//! Rows in which a vCPU interrupts many others.

use std::sync::Arc;

use vmbell::sync::Mutex;
use vmbell_bench::scenario::{self, ScanValues};
use vmbell_bench::{
    BenchPlan, CommandLimit, Record, SilentObserver, SubjectOptions, TickClock, WantedEntries, run,
    select,
};
use vmbell_hypervisor::{Hypervisor, SpinPolicy};
use vmbell_report::{Status, Timing};

/// The last number is more than most hosts have CPUs, and more than a single register of an arm64 guest can name.
const VCPUS: [u32; 4] = [1, 2, 5, 17];

fn every_vcpu_answers_whether_it_is_named_alone_or_with_all<H>(hypervisor: &H)
where
    H: Hypervisor + Clone + 'static,
{
    let hypervisor: Arc<dyn Hypervisor> = Arc::new(hypervisor.clone());
    let scan = ScanValues {
        vcpus: VCPUS.to_vec(),
        ..ScanValues::default()
    };
    let wanted = WantedEntries::Named {
        patterns: &["ipi-all-*".to_owned()],
        companions: false,
    };
    let entries = select(scenario::entries(&hypervisor, &scan), wanted).unwrap();
    let options = SubjectOptions {
        cpus: vec![0, 1],
        spin: SpinPolicy::Sleep,
        clock: TickClock::calibrate().unwrap(),
        limit: CommandLimit::none().with_run_timeout(Some(kit::wait::HANG)),
        timing: Timing::Native,
        marks: None,
    };
    let plan = BenchPlan {
        runs: 2,
        ops: Some(20),
        ..BenchPlan::default()
    };
    let record = Mutex::new(Record::of(&entries));
    run(&entries, &options, &plan, &record, &mut SilentObserver);
    let record = record.into_inner();
    assert!(record.series.len() >= 2 * VCPUS.len());
    let most = if cfg!(target_arch = "aarch64") {
        16
    } else {
        64
    };
    for series in &record.series {
        let vcpus: u32 = series.name.rsplit('=').next().unwrap().parse().unwrap();
        let reason = series.reason.as_deref().unwrap_or_default();
        if (2..=most).contains(&vcpus) {
            let result = (series.status, series.samples.len());
            assert_eq!(result, (Status::Ok, 2), "{}: {reason}", series.name);
        } else {
            assert_eq!(series.status, Status::Skipped, "{}", series.name);
            assert!(reason.ends_with(&format!("not {vcpus}")), "{reason}");
        }
        // The reference row must be one that can be measured on this host.
        let reference = series.reference.as_deref();
        assert!(reference.is_none_or(|name| name.ends_with(",vcpus=2")));
    }
}

testbed::on_both! {
    every_vcpu_answers_whether_it_is_named_alone_or_with_all;
}
