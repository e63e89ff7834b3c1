use std::collections::BTreeMap;

use super::*;
use vmbell_report::{
    Group, Kind, Measured, Outcome, Paths, Planned, Row, Setting, Times, Tool, Tsc,
};

fn row(name: &str, backend: &str, ns: f64) -> Row {
    Row {
        command: name.to_owned(),
        description: None,
        group: Group::Scenario,
        backend: backend.to_owned(),
        parameters: BTreeMap::new(),
        setting: Setting::default(),
        timing_valid: true,
        reference: None,
        note: None,
        outcome: Outcome::Measured(Box::new(Measured::of(
            Times::of(&[ns], vec![1000]).unwrap(),
        ))),
    }
}

fn host() -> Host {
    Host {
        kernel: "Linux 6.18.5".to_owned(),
        ..Host::default()
    }
}

fn report(results: Vec<Row>) -> Report {
    let paths = Paths {
        spin: "never".to_owned(),
        highlights: Vec::new(),
        ratios_to: "device model".to_owned(),
    };
    Report {
        kind: Kind::Paths(paths),
        tool: Tool {
            name: "vmbell".to_owned(),
            version: "1.0.0".to_owned(),
            git: None,
        },
        host: host(),
        started: "2026-11-26T00:00:00Z".to_owned(),
        duration: 1.0,
        interrupted: false,
        timed_out: false,
        timing: Timing::Native,
        seed: 0,
        plan: Planned {
            runs: 1,
            finished: 1,
            warmup: 1,
            min_time: 0.1,
            ops: None,
        },
        backends: Vec::new(),
        cpus: Vec::new(),
        tsc: Tsc {
            hz: 1e9,
            invariant: true,
        },
        results,
    }
}

#[test]
fn costs_are_the_medians_of_kvms_measured_rows() {
    let mut below_resolution = row("doorbell-word", "kvm", 1.0);
    below_resolution.measured_mut().unwrap().times.resolution = Some(20.0);
    let skipped = Row {
        outcome: Outcome::Skipped { reason: None },
        ..row("eoi-pv", "kvm", 1.0)
    };
    let rows = vec![
        row("mmio-no-eventfd", "usermode", 9000.0),
        row("mmio-no-eventfd", "kvm", 5000.0),
        below_resolution,
        skipped,
    ];
    let costs = of(&report(rows), &host(), Timing::Native).unwrap();
    assert_eq!(costs.nanoseconds("mmio-no-eventfd"), Some(5000.0));
    assert_eq!(costs.nanoseconds("doorbell-word"), None);
    assert_eq!(costs.nanoseconds("eoi-pv"), None);
}

#[test]
fn a_report_of_another_host_says_what_differs() {
    let here = Host {
        kernel: "Linux 6.19.0".to_owned(),
        ..host()
    };
    let report = report(vec![row("mmio-no-eventfd", "kvm", 5000.0)]);
    assert_eq!(
        of(&report, &here, Timing::Native).unwrap_err().to_string(),
        "it is of another host; there and here differ: kernel: 'Linux 6.18.5' and 'Linux 6.19.0'"
    );
    assert_eq!(
        of(&report, &host(), Timing::Emulated)
            .unwrap_err()
            .to_string(),
        "its times are native, and here they are emulated"
    );
}

#[test]
fn a_report_without_rows_of_kvm_has_no_costs() {
    let report = report(vec![row("mmio-no-eventfd", "usermode", 5000.0)]);
    assert_eq!(
        of(&report, &host(), Timing::Native)
            .unwrap_err()
            .to_string(),
        "it has no measured row of the backend kvm"
    );
}
