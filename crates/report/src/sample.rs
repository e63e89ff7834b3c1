//! A report with one row of each kind, the same on every host: the snapshots of all writers use it.

use super::model::{
    Backend, Exits, Highlight, Percentiles, PercentilesOf, Planned, Ratio, Report, Row,
    SCHEMA_VERSION, Tool, Tsc,
};
use super::{Counted, Counting, Counts, EventUnit, Form, Host, Scope, Timing};
use super::{Group, Status, Vmm, VmmDevice, VmmGuest};

/// The report of the lab's deterministic mode, where one instruction takes one virtual nanosecond.
pub(super) fn counted() -> Report {
    let mut report = report();
    report.timing = Timing::Instructions;
    report.plan = Planned {
        min_time: 0.0,
        ops: Some(2000),
        ..report.plan
    };
    for row in &mut report.results {
        row.instructions = row.median_ns.map(f64::round);
        row.timing_valid = false;
    }
    report
}

/// The report of a native `vmbell bench`.
pub(super) fn report() -> Report {
    let device_model = row(
        "portio-no-eventfd",
        Group::Scenario,
        14_200.0,
        Some((0.0, 1.0)),
    );
    let wildcard = Row {
        reference: Some("portio-no-eventfd".to_owned()),
        ratio: Some(ratio("portio-no-eventfd", 0.44, 0.43, 0.46)),
        ..row(
            "portio-wildcard-eventfd",
            Group::Scenario,
            6240.0,
            Some((1.0, 0.0)),
        )
    };
    let spinning = Row {
        spin: Some("spin".to_owned()),
        reference: Some("portio-no-eventfd".to_owned()),
        ratio: Some(ratio("portio-no-eventfd", 1.02, 0.97, 1.09)),
        ..row(
            "portio-no-eventfd+spin",
            Group::Scenario,
            14_484.0,
            Some((0.0, 1.0)),
        )
    };
    let latency = Row {
        percentiles_of: PercentilesOf::Operations,
        ..row(
            "portio-notify-latency",
            Group::Scenario,
            12_900.0,
            Some((1.0, 0.002)),
        )
    };
    let floor = |name, ns| Row {
        backend: "host".to_owned(),
        spin: None,
        cpus: vec![0],
        ..row(name, Group::Floor, ns, None)
    };
    Report {
        schema_version: SCHEMA_VERSION,
        tool: Tool {
            name: "vmbell".to_owned(),
            version: "0.1.0".to_owned(),
            git: Some("0123456789ab".to_owned()),
        },
        host: host(),
        started: "2026-11-21T09:30:00Z".to_owned(),
        duration: 12.34,
        interrupted: false,
        timing: Timing::Native,
        timed_out: false,
        seed: 42,
        plan: Planned {
            runs: 4,
            finished: 4,
            warmup: 1,
            min_time: 0.015,
            ops: None,
        },
        backend: Backend {
            name: "usermode".to_owned(),
            why: "there is no /dev/kvm".to_owned(),
            emulates_kernel_mode: false,
        },
        spin: "sleep".to_owned(),
        cpus: vec![0, 1],
        tsc: Tsc {
            hz: 2.5e9,
            invariant: true,
        },
        results: vec![
            device_model,
            spinning,
            wildcard,
            latency,
            unmeasured(
                "portio-wildcard-eventfd+jmp",
                Status::Skipped,
                "needs | a pipe",
            ),
            unmeasured(
                "mmio-no-eventfd",
                Status::Failed,
                "the guest stopped: #PF at 0x1000",
            ),
            floor("floor-getppid", 712.0),
            floor("floor-eventfd-write", 803.0),
        ],
        backends: Vec::new(),
        verdict: Vec::new(),
        highlights: vec![
            Highlight {
                new: "portio-wildcard-eventfd".to_owned(),
                backend: "usermode".to_owned(),
                text: "an eventfd on a port, instead of the device model".to_owned(),
                ratio: ratio("portio-no-eventfd", 0.44, 0.43, 0.46),
            },
            Highlight {
                new: "doorbell-word".to_owned(),
                backend: "usermode".to_owned(),
                text: "a doorbell word, against the bare eventfd write".to_owned(),
                ratio: ratio("floor-eventfd-write", 0.0525, 0.0501, 0.061),
            },
        ],
        ratios_to: "device model".to_owned(),
        counting: None,
        vmms: Vec::new(),
    }
}

fn host() -> Host {
    let map = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect()
    };
    Host {
        kernel: "Linux 6.18.0".to_owned(),
        arch: "x86_64".to_owned(),
        cpu: "Example(R) CPU @ 2.50GHz".to_owned(),
        microcode: Some("0x1".to_owned()),
        cpus: 2,
        allowed_cpus: vec![0, 1],
        governor: None,
        smt: Some(false),
        hypervisor: Some("KVM".to_owned()),
        load: Some(0.25),
        mitigations: map(&[
            ("meltdown", "Mitigation: PTI"),
            ("spectre_v2", "Mitigation: IBRS"),
            ("mds", "Vulnerable: no microcode"),
        ]),
        kvm_params: map(&[]),
    }
}

fn row(name: &str, group: Group, ns: f64, exits: Option<(f64, f64)>) -> Row {
    let samples_ns: Vec<f64> = [0.98, 1.0, 1.0, 1.06].map(|x| (x * ns).round()).to_vec();
    let share = |share: f64| Some((ns * share * 1000.0).round() / 1000.0);
    Row {
        command: name.to_owned(),
        group,
        status: Status::Ok,
        reason: None,
        mean_ns: share(1.01),
        stddev_ns: share(0.035),
        median_ns: share(1.0),
        instructions: None,
        user_ns: share(0.25),
        system_ns: share(0.75),
        min_ns: share(0.98),
        max_ns: share(1.06),
        parameters: [].into(),
        backend: "usermode".to_owned(),
        spin: Some("sleep".to_owned()),
        cpus: vec![0, 1],
        exits: exits.map(|(light, heavy)| Exits {
            light: Some(light),
            heavy,
        }),
        timing_valid: true,
        ops_per_run: 1000,
        ops: Vec::new(),
        shortest_run: Some(0.015),
        samples_ns,
        percentiles_ns: Some(Percentiles {
            p50: ns,
            p90: Some(ns * 1.04),
            p99: Some(ns * 1.05),
            p99_9: None,
        }),
        percentiles_of: PercentilesOf::Runs,
        spread: Some(0.015),
        outliers: 0,
        outliers_shift: 0.0,
        reference: None,
        ratio: None,
        exits_per_op: None,
        events: Counts::default(),
        counts: Counts::default(),
        ratios: [].into(),
        note: None,
        exits_note: None,
        exit_reasons: None,
        resolution_ns: None,
        address_space: None,
    }
}

fn unmeasured(name: &str, status: Status, reason: &str) -> Row {
    Row {
        command: name.to_owned(),
        group: Group::Scenario,
        status,
        reason: Some(reason.to_owned()),
        mean_ns: None,
        stddev_ns: None,
        median_ns: None,
        user_ns: None,
        system_ns: None,
        min_ns: None,
        max_ns: None,
        exits: None,
        ops_per_run: 0,
        shortest_run: None,
        samples_ns: Vec::new(),
        percentiles_ns: None,
        spread: None,
        reference: Some("portio-no-eventfd".to_owned()),
        ..row(name, Group::Scenario, 0.0, None)
    }
}

/// A report of two backends, one of which cannot run every row.
pub(super) fn two_backends() -> Report {
    let usermode = report();
    let mut kvm = usermode.clone();
    for row in &mut kvm.results {
        row.backend = "kvm".to_owned();
        row.median_ns = row.median_ns.map(|ns| ns / 2.0);
    }
    let mut results = Vec::new();
    for (mut kvm, usermode) in kvm.results.into_iter().zip(usermode.results) {
        if usermode.group == Group::Scenario && !usermode.command.contains('+') {
            if usermode.command == "portio-notify-latency" {
                kvm = unmeasured(
                    "portio-notify-latency",
                    Status::Skipped,
                    "it needs two CPUs",
                );
                kvm.backend = "kvm".to_owned();
            }
            results.push(kvm);
        }
        results.push(usermode);
    }
    let backend = |name: &str, why: &str| Backend {
        name: name.to_owned(),
        why: why.to_owned(),
        emulates_kernel_mode: false,
    };
    let backends = vec![
        backend("kvm", "/dev/kvm opens"),
        backend("usermode", "runs everywhere"),
    ];
    Report {
        backend: backends[0].clone(),
        backends,
        verdict: vec![
            "kvm: a doorbell costs 3.12 µs, 0.44 of an exit to the VMM (7.10 µs) here".to_owned(),
        ],
        results,
        ..report()
    }
}

/// A report of `vmbell bench eoi`: two modes of a guest that takes 500 interrupts, and the events of each.
pub(super) fn events() -> Report {
    let mode = |name: &str, [exits, msr, spared]: [u64; 3]| Row {
        ops_per_run: 500,
        samples_ns: vec![3e6],
        exits: None,
        exits_per_op: Some(exits as f64 / 500.0),
        events: counts(&[
            ("kvm:kvm_cpuid", &[0]),
            ("kvm:kvm_exit", &[exits]),
            ("kvm:kvm_msr", &[msr]),
            ("kvm:kvm_pv_eoi", &[spared]),
        ]),
        counts: counts(&[("interrupts taken", &[500]), ("ends by the bit", &[spared])]),
        ..row(name, Group::Scenario, 3e6, None)
    };
    let off = mode("pv-eoi-off", [2000, 500, 0]);
    let on = Row {
        ratios: [
            ("exits", 0.75),
            ("kvm:kvm_exit", 0.75),
            ("kvm:kvm_msr", 0.002),
        ]
        .map(|(name, value)| {
            let ratio = ratio("pv-eoi-off", value, value - 0.001, value + 0.001);
            (name.to_owned(), ratio)
        })
        .into(),
        ..mode("pv-eoi-on", [1500, 1, 499])
    };
    Report {
        backend: Backend {
            name: "kvm".to_owned(),
            why: "chosen by --backend".to_owned(),
            emulates_kernel_mode: false,
        },
        results: vec![off, on],
        counting: Some(Counting {
            form: Form::Events,
            text: "500 interrupts".to_owned(),
            operation: "interrupt".to_owned(),
            source: "tracepoints of the kernel".to_owned(),
            events: Vec::new(),
        }),
        ..report()
    }
}

/// A report of `vmbell bench rings`: two variants, on a host that counts some of the events.
pub(super) fn perf_stat() -> Report {
    let variant = |name: &str, ns: f64| Row {
        ops_per_run: 500,
        parameters: [("switches".to_owned(), format!("--split {name}"))].into(),
        samples_ns: vec![0.95 * ns, 1.05 * ns],
        events: counts(&[
            ("task-clock", &[190_000, 210_000]),
            ("instructions", &[950_000, 1_050_000]),
        ]),
        counts: counts(&[("kicks", &[500, 500]), ("calls", &[0, 1])]),
        ..row(name, Group::Floor, ns, None)
    };
    let plain = variant("--no-wrap-counters", 1000.0);
    let wide = Row {
        reference: Some("--no-wrap-counters".to_owned()),
        ratio: Some(ratio("--no-wrap-counters", 1.5, 1.25, 1.75)),
        ratios: [("instructions", 2.0), ("task-clock", 1.0)]
            .map(|(event, value)| {
                (
                    event.to_owned(),
                    ratio("--no-wrap-counters", value, value, value),
                )
            })
            .into(),
        ..variant("--wide-tokens", 1500.0)
    };
    let event = |event: &str, unit, scope, reason: Option<&str>| Counted {
        event: event.to_owned(),
        unit,
        scope,
        reason: reason.map(str::to_owned),
    };
    Report {
        results: vec![plain, wide],
        counting: Some(Counting {
            form: Form::PerfStat,
            text: "500 buffers a run".to_owned(),
            operation: "buffer".to_owned(),
            source: "perf_event_open(2)".to_owned(),
            events: vec![
                event("task-clock", EventUnit::Ns, Some(Scope::All), None),
                event(
                    "cycles",
                    EventUnit::Count,
                    None,
                    Some("there is no counter"),
                ),
                event("instructions", EventUnit::Count, Some(Scope::User), None),
            ],
        }),
        ..report()
    }
}

fn counts(counts: &[(&str, &[u64])]) -> Counts {
    let counts = counts.iter();
    counts
        .map(|(name, runs)| ((*name).to_owned(), runs.to_vec()))
        .collect()
}

fn ratio(reference: &str, value: f64, ci_low: f64, ci_high: f64) -> Ratio {
    Ratio {
        reference: reference.to_owned(),
        value,
        ci_low: Some(ci_low),
        ci_high: Some(ci_high),
        is_bound: false,
    }
}

/// A VMM with a guest, or one that failed if it has no boots.
pub(super) fn vmm(name: &str, boots: u32, emulated: bool) -> Vmm {
    let guest = VmmGuest {
        boot: "pvh".to_owned(),
        cpu_vendor: "GenuineIntel".to_owned(),
        cpu: "QEMU Virtual CPU version 2.5+".to_owned(),
        hypervisor: Some("KVMKVMKVM".to_owned()),
        apic: "xapic".to_owned(),
        cpus: 1,
        tsc_hz: Some(2.1e9),
        tsc_source: Some("pvclock".to_owned()),
        devices: vec![VmmDevice {
            kind: "rng".to_owned(),
            transport: "pci".to_owned(),
            found_by: "pci-cf8".to_owned(),
            interrupt: Some("msix".to_owned()),
            gsi: None,
        }],
        end: "pm1a".to_owned(),
    };
    Vmm {
        name: name.to_owned(),
        status: if boots > 0 {
            Status::Ok
        } else {
            Status::Failed
        },
        reason: (boots == 0).then(|| "it printed nothing of the image".to_owned()),
        last_output: (boots == 0).then(|| "qemu: no such machine".to_owned()),
        program: Some("/usr/bin/vmm".to_owned()),
        version: Some("VMM 1.2".to_owned()),
        boots,
        emulated,
        guest: (boots > 0).then_some(guest),
        repeated: None,
        exits_reason: None,
    }
}
