//! Rows in which a vCPU interrupts many others.

use std::sync::Arc;

use vmbell_bench::scenario::ScanValues;
use vmbell_hypervisor::Hypervisor;
use vmbell_report::Status;

use crate::measure::{measured, named};

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
    let entries = named(&hypervisor, &scan, &["ipi-all-*"]);
    let record = measured(&entries, &[0, 1], [2, 20], kit::wait::HANG);
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
