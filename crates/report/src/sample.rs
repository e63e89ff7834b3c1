//! A report with one row of each kind, the same on every host; the snapshots of all writers use it.

use super::{
    Backend, Counted, Counts, EventUnit, Exits, Group, Highlight, Host, Kind, Measured, Outcome,
    Paths, Percentiles, PercentilesOf, Planned, Ratio, Report, Row, Scope, Setting, Status, Times,
    Timing, Tool, Tsc, Vmm, VmmDevice, VmmGuest, Work,
};

/// The numbers of a measured row.
pub(super) fn of(row: &mut Row) -> &mut Measured {
    row.measured_mut().expect("a measured row")
}

/// What a report of paths has in addition to its rows.
pub(super) fn paths(report: &mut Report) -> &mut Paths {
    match &mut report.kind {
        Kind::Paths(paths) => paths,
        kind => panic!("{kind:?}"),
    }
}

/// The report as if it compared these VMMs.
pub(super) fn of_vmms(vmms: Vec<Vmm>, rows: Vec<Row>) -> Report {
    let template = report();
    let backend = |vmm: &Vmm| Backend {
        name: vmm.name.clone(),
        ..Backend::default()
    };
    Report {
        backends: vmms.iter().map(backend).collect(),
        results: rows,
        kind: Kind::Vmms { vmms },
        ..template
    }
}

/// A row of a VMM with this median.
pub(super) fn of_vmm(vmm: &str, name: &str, ns: f64) -> Row {
    let mut row = row(name, Group::Scenario, 14_200.0, Some((0.0, 1.0)));
    row.backend = vmm.to_owned();
    of(&mut row).times.median = ns;
    row
}

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
    let wildcard = compared(
        row(
            "portio-wildcard-eventfd",
            Group::Scenario,
            6240.0,
            Some((1.0, 0.0)),
        ),
        ratio("portio-no-eventfd", 0.44, 0.43, 0.46),
    );
    let mut spinning = compared(
        row(
            "portio-no-eventfd+spin",
            Group::Scenario,
            14_484.0,
            Some((0.0, 1.0)),
        ),
        ratio("portio-no-eventfd", 1.02, 0.97, 1.09),
    );
    spinning.setting.spin = Some("spin".to_owned());
    let mut latency = row(
        "portio-notify-latency",
        Group::Scenario,
        12_900.0,
        Some((1.0, 0.002)),
    );
    of(&mut latency).times.percentiles_of = PercentilesOf::Operations;
    let floor = |name, ns| Row {
        backend: "host".to_owned(),
        setting: Setting {
            cpus: vec![0],
            ..Setting::default()
        },
        ..row(name, Group::Floor, ns, None)
    };
    Report {
        tool: Tool {
            name: "vmbell".to_owned(),
            version: "0.1.0".to_owned(),
            git: Some("0123456789ab".to_owned()),
        },
        host: host(),
        started: "2026-11-21T09:30:00Z".to_owned(),
        duration: 12.34,
        interrupted: false,
        timed_out: false,
        timing: Timing::Native,
        seed: 42,
        plan: Planned {
            runs: 4,
            finished: 4,
            warmup: 1,
            min_time: 0.015,
            ops: None,
        },
        backends: vec![Backend {
            name: "usermode".to_owned(),
            why: "there is no /dev/kvm".to_owned(),
            emulates_kernel_mode: false,
        }],
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
        kind: Kind::Paths(Paths {
            spin: "sleep".to_owned(),
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
        }),
    }
}

/// The row with this comparison.
fn compared(mut row: Row, ratio: Ratio) -> Row {
    row.reference = Some(ratio.reference.clone());
    of(&mut row).ratio = Some(ratio);
    row
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
        depth: None,
        depth_vmm: None,
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
    let samples: Vec<f64> = [0.98, 1.0, 1.0, 1.06].map(|x| (x * ns).round()).to_vec();
    let share = |share: f64| (ns * share * 1000.0).round() / 1000.0;
    let times = Times {
        mean: share(1.01),
        stddev: Some(share(0.035)),
        median: share(1.0),
        min: share(0.98),
        max: share(1.06),
        shortest_run: Some(0.015),
        percentiles: Some(Percentiles {
            p50: ns,
            p90: Some(ns * 1.04),
            p99: Some(ns * 1.05),
            p99_9: None,
        }),
        spread: Some(0.015),
        ..Times::of(&samples, vec![1000; 4]).expect("samples")
    };
    let measured = Measured {
        user: Some(share(0.25)),
        system: Some(share(0.75)),
        exits: exits.map(|(light, heavy)| Exits {
            total: Some(light + heavy),
            userspace: Some(heavy),
        }),
        ..Measured::of(times)
    };
    Row {
        command: name.to_owned(),
        description: Some(format!("what {name} does")),
        group,
        backend: "usermode".to_owned(),
        parameters: [].into(),
        setting: Setting {
            spin: Some("sleep".to_owned()),
            cpus: vec![0, 1],
            address_space: None,
        },
        timing_valid: true,
        reference: None,
        note: None,
        outcome: Outcome::Measured(Box::new(measured)),
    }
}

fn unmeasured(name: &str, status: Status, reason: &str) -> Row {
    let reason = Some(reason.to_owned());
    Row {
        outcome: match status {
            Status::Failed => Outcome::Failed { reason },
            Status::Ok | Status::Skipped => Outcome::Skipped { reason },
        },
        reference: Some("portio-no-eventfd".to_owned()),
        ..row(name, Group::Scenario, 1.0, None)
    }
}

/// A report of two backends, one of which cannot run every row.
pub(super) fn two_backends() -> Report {
    let usermode = report();
    let mut kvm = usermode.clone();
    for row in &mut kvm.results {
        row.backend = "kvm".to_owned();
        if let Some(measured) = row.measured_mut() {
            measured.times.median /= 2.0;
        }
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
    let mut report = report();
    report.backends = backends;
    report.results = results;
    report
}

/// A row of this group with these samples and this number of operations in each run.
fn counting(name: &str, group: Group, ns: f64, samples: &[f64], ops: u64) -> Row {
    let mut row = row(name, group, ns, None);
    let times = &mut of(&mut row).times;
    times.samples = samples.to_vec();
    times.ops = vec![ops; samples.len()];
    row
}

/// A report of interrupts: two modes of a guest that takes 500 interrupts, with the events of each mode.
pub(super) fn events() -> Report {
    let mode = |name: &str, [exits, msr, spared]: [u64; 3]| {
        let mut row = counting(name, Group::Scenario, 3e6, &[3e6], 500);
        let measured = of(&mut row);
        measured.exits = Some(Exits {
            total: Some(exits as f64 / 500.0),
            userspace: None,
        });
        measured.events = counts(&[
            ("kvm:kvm_cpuid", &[0]),
            ("kvm:kvm_exit", &[exits]),
            ("kvm:kvm_msr", &[msr]),
            ("kvm:kvm_pv_eoi", &[spared]),
        ]);
        measured.counts = counts(&[("interrupts taken", &[500]), ("ends by the bit", &[spared])]);
        row
    };
    let off = mode("pv-eoi-off", [2000, 500, 0]);
    let mut on = mode("pv-eoi-on", [1500, 1, 499]);
    of(&mut on).ratios = [
        ("exits", 0.75),
        ("kvm:kvm_exit", 0.75),
        ("kvm:kvm_msr", 0.002),
    ]
    .map(|(name, value)| {
        let ratio = ratio("pv-eoi-off", value, value - 0.001, value + 0.001);
        (name.to_owned(), ratio)
    })
    .into();
    let mut report = report();
    report.backends = vec![Backend {
        name: "kvm".to_owned(),
        why: "chosen by --backend".to_owned(),
        emulates_kernel_mode: false,
    }];
    report.results = vec![off, on];
    report.kind = Kind::Eoi {
        work: Work {
            text: "500 interrupts".to_owned(),
            operation: "interrupt".to_owned(),
            source: "tracepoints of the kernel".to_owned(),
            events: Vec::new(),
        },
    };
    report
}

/// A report of rings: two variants, on a host that counts only some of the events.
pub(super) fn rings() -> Report {
    let variant = |name: &str, ns: f64| {
        let mut row = counting(name, Group::Floor, ns, &[0.95 * ns, 1.05 * ns], 500);
        row.parameters = [("switches".to_owned(), format!("--split {name}"))].into();
        let measured = of(&mut row);
        measured.events = counts(&[
            ("task-clock", &[190_000, 210_000]),
            ("instructions", &[950_000, 1_050_000]),
        ]);
        measured.counts = counts(&[("kicks", &[500, 500]), ("calls", &[0, 1])]);
        row
    };
    let plain = variant("--no-wrap-counters", 1000.0);
    let mut wide = compared(
        variant("--wide-tokens", 1500.0),
        ratio("--no-wrap-counters", 1.5, 1.25, 1.75),
    );
    of(&mut wide).ratios = [("instructions", 2.0), ("task-clock", 1.0)]
        .map(|(event, value)| {
            (
                event.to_owned(),
                ratio("--no-wrap-counters", value, value, value),
            )
        })
        .into();
    let event = |event: &str, unit, scope, reason: Option<&str>| Counted {
        event: event.to_owned(),
        unit,
        scope,
        reason: reason.map(str::to_owned),
    };
    let mut report = report();
    report.results = vec![plain, wide];
    report.kind = Kind::Rings {
        work: Work {
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
        },
    };
    report
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

/// The report as shown on a terminal of this width without colours.
pub(crate) fn shown(report: &Report, look: crate::Look, width: Option<usize>) -> String {
    let width = match (width, crate::widest(report, look)) {
        (Some(width), Some(widest)) => Some(width.min(widest)),
        (width, widest) => width.or(widest),
    };
    let color = false;
    crate::terminal(&crate::blocks(report, look), crate::Screen { color, width })
}

/// Blocks as shown on a terminal without colours.
pub(crate) fn plain(blocks: &[crate::Block]) -> String {
    crate::terminal(blocks, crate::Screen::default())
}

/// Compares a file with what the test made, or writes the file if `UPDATE_FILES` is set.
pub(crate) fn assert_recorded(path: &str, made: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_FILES").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    let path = path.display();
    assert!(
        kept == made,
        "run this test with UPDATE_FILES=1, which rewrites {path}:\n{made}"
    );
}
