//! Rows of loops with the least work around an exit.

use std::sync::Arc;
use std::time::Duration;

use vmbell_bench::scenario::ScanValues;
use vmbell_bench::{Record, SampleSeries};
use vmbell_hypervisor::Hypervisor;
use vmbell_report::Status;

use crate::measure;

/// Measures the rows in two runs of `ops` exits each.
fn measured<H>(hypervisor: &H, ops: u64, timeout: Duration) -> Vec<SampleSeries>
where
    H: Hypervisor + Clone + 'static,
{
    let hypervisor: Arc<dyn Hypervisor> = Arc::new(hypervisor.clone());
    let pattern = format!("floor-{}-*", hypervisor.name());
    let entries = measure::named(&hypervisor, &ScanValues::default(), &[&pattern]);
    let Record { series, .. } = measure::measured(&entries, &[0], [2, ops], timeout);
    assert!(series.len() >= 2);
    series
}

fn bare_loop_makes_the_exits_that_it_is_asked_for<H>(hypervisor: &H)
where
    H: Hypervisor + Clone + 'static,
{
    for series in measured(hypervisor, 1000, kit::wait::HANG) {
        let reason = series.reason.as_deref().unwrap_or_default();
        let result = (series.status, series.samples.len());
        assert_eq!(result, (Status::Ok, 2), "{}: {reason}", series.name);
    }
}

fn bare_loop_ends_at_its_time_limit<H>(hypervisor: &H)
where
    H: Hypervisor + Clone + 'static,
{
    for series in measured(hypervisor, 1 << 40, Duration::from_millis(300)) {
        let reason = series.reason.as_deref().unwrap_or_default();
        assert_eq!(series.status, Status::Failed, "{}: {reason}", series.name);
        assert!(reason.contains("took longer than"), "{reason}");
    }
}

testbed::on_kvm! {
    bare_loop_makes_the_exits_that_it_is_asked_for;
    bare_loop_ends_at_its_time_limit;
}
