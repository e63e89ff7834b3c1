//! Tests of the rows that `vmms` and `net` make.

use std::path::PathBuf;

use super::super::column::{BatchTimes, BootResult, TCG, VmmFailure};
use super::*;
use vmbell_report::{ReasonsOfRun, Status, VmmGuest};

struct Double(&'static str);

impl BootWay for Double {
    fn name(&self) -> &str {
        self.0
    }

    fn program(&self) -> Result<PathBuf, String> {
        Ok("/vmm".into())
    }

    fn version(&self) -> Option<&'static str> {
        None
    }
}

fn guest(hypervisor: &str) -> VmmGuest {
    VmmGuest {
        boot: "pvh".to_owned(),
        cpu_vendor: "v".to_owned(),
        cpu: "b".to_owned(),
        hypervisor: Some(hypervisor.to_owned()),
        apic: "xapic".to_owned(),
        cpus: 1,
        tsc_hz: None,
        tsc_source: None,
        devices: Vec::new(),
        end: String::new(),
    }
}

fn row(name: &str, ns: &[f64]) -> BootRow {
    BootRow {
        name: name.to_owned(),
        description: Some(format!("what {name} does")),
        batches: match ns {
            [] => Err("there is no such device".to_owned()),
            ns => Ok(BatchTimes {
                operations: 10,
                ns: ns.to_vec(),
            }),
        },
        counted: None,
    }
}

fn counted(exits: &[(&str, u64)], kicks: u64) -> CountedBatch {
    let exits = exits.iter();
    CountedBatch {
        operations: 10.0,
        reasons: ReasonsOfRun {
            exits: exits
                .map(|(reason, count)| ((*reason).to_owned(), *count))
                .collect(),
            userspace: [("KVM_EXIT_MMIO".to_owned(), 10)].into(),
        },
        counts: vec![("kicks", kicks), ("interrupts", 2 * kicks)],
        events: Vec::new(),
    }
}

fn column(name: &'static str, boots: Vec<Vec<BootRow>>) -> BootColumn<Double> {
    let boot = |rows| BootResult {
        guest: Some(guest("KVMKVMKVM")),
        rows,
    };
    BootColumn {
        boots: boots.into_iter().map(boot).collect(),
        ..BootColumn::new(Double(name), Ok("/vmm".into()))
    }
}

fn of(columns: &[BootColumn<Double>]) -> Vec<Row> {
    rows(columns, Timing::Native)
}

fn ratios(rows: &[Row]) -> Vec<Option<f64>> {
    let value = |row: &Row| row.ratio().map(|ratio| ratio.value);
    rows.iter().map(value).collect()
}

#[test]
fn a_row_has_the_batches_of_all_boots() {
    let boots = vec![
        vec![
            row("cpuid", &[1000.0, 2000.0]),
            row("virtio-rng-notify", &[]),
        ],
        vec![row("cpuid", &[3000.0]), row("virtio-rng-notify", &[])],
    ];
    let rows = of(&[column("a", boots)]);
    let times = rows[0].times().unwrap();
    assert_eq!(times.samples, [1000.0, 2000.0, 3000.0]);
    assert_eq!((times.median, times.ops_per_run()), (2000.0, Some(10)));
    assert!(rows[0].timing_valid);
    assert_eq!(rows[1].status(), Status::Skipped);
    assert_eq!(rows[1].reason(), Some("there is no such device"));
}

#[test]
fn ratios_are_to_the_first_column_with_results() {
    let boots = |ns: f64| vec![vec![row("cpuid", &[ns])]; 3];
    let columns = [
        column("a", Vec::new()),
        column("b", boots(100.0)),
        column("c", boots(250.0)),
    ];
    let rows = of(&columns);
    assert_eq!(ratios(&rows), [None, Some(2.5)]);
    assert_eq!(rows[1].ratio().unwrap().reference, "cpuid (b)");
    assert_eq!(of(&columns[..1]), []);
}

#[test]
fn the_interval_of_a_ratio_is_that_of_boots_and_not_of_batches() {
    // Batches of one boot differ by a thousandth, boots by 5 %.
    let boots = |of_boots: [f64; 3]| {
        let boot = |ns: f64| vec![row("cpuid", &[ns, ns * 1.001, ns * 0.999, ns, ns])];
        of_boots.map(boot).into()
    };
    let columns = [
        column("a", boots([100.0, 100.0, 100.0])),
        column("b", boots([95.0, 100.0, 105.0])),
    ];
    let rows = of(&columns);
    let [low, high] = rows[1].ratio().unwrap().interval().unwrap();
    assert!(low < 0.95 && high > 1.05, "{low} to {high}");
    let single = |ns| column("one", vec![vec![row("cpuid", &[ns; 9])]]);
    let rows = of(&[single(100.0), single(200.0)]);
    let ratio = rows[1].ratio().unwrap();
    assert_eq!((ratio.value, ratio.interval()), (2.0, None));
}

#[test]
fn an_emulated_cpu_is_compared_with_nothing() {
    let boots = vec![vec![row("cpuid", &[100.0])]];
    let mut emulated = column("tcg", boots.clone());
    emulated.boots[0].guest = Some(guest(TCG));
    let rows = of(&[column("a", boots.clone()), emulated]);
    assert_eq!(ratios(&rows), [None, None]);
    assert!(rows[0].timing_valid && !rows[1].timing_valid);
}

#[test]
fn what_each_boot_counted_is_counted_in_one_way() {
    let boot = |npf| {
        let mut row = row("rr", &[100.0]);
        row.counted = Some(Ok(vec![counted(&[("npf", npf), ("interrupt", 5)], 11)]));
        vec![row]
    };
    let rows = of(&[column("a", vec![boot(20), boot(40), boot(30)])]);
    let measured = rows[0].measured().unwrap();
    let exits = Exits {
        total: Some(3.0),
        userspace: Some(1.0),
    };
    assert_eq!(measured.exits, Some(exits));
    let reasons = measured.exit_reasons.as_ref().unwrap();
    assert_eq!(reasons.kvm_exit["interrupt"], 0.5);
    assert_eq!(measured.counts.get("kicks"), Some(&[11, 11, 11][..]));
    assert_eq!(measured.counts.get("interrupts"), Some(&[22, 22, 22][..]));
}

#[test]
fn what_a_further_boot_counted_is_counted_in_the_same_way() {
    let boots = vec![vec![
        row("cpuid", &[1.0]),
        row("timer", &[1.0]),
        row("rtc", &[1.0]),
    ]];
    let mut column = column("a", boots);
    let batches = [10, 17, 10].map(|exits| counted(&[("cpuid", exits)], 0));
    column.counted = Some(Ok(vec![
        ("cpuid".to_owned(), Ok(batches.into())),
        (
            "timer".to_owned(),
            Err("it has no mark, or shares one".to_owned()),
        ),
    ]));
    let rows = of(std::slice::from_ref(&column));
    // One disturbed batch does not change the number.
    let total = |row: &Row| row.exits().and_then(|exits| exits.total);
    assert_eq!(total(&rows[0]), Some(1.0));
    let note = |row: &Row| row.measured().unwrap().exits_note.clone();
    assert_eq!(
        note(&rows[1]).as_deref(),
        Some("it has no mark, or shares one")
    );
    let missing = "the row had no numbers in the boot that counts";
    assert_eq!(note(&rows[2]).as_deref(), Some(missing));
    column.counted = Some(Err("it takes root".to_owned()));
    assert_eq!(column.vmm().exits_reason.as_deref(), Some("it takes root"));
    assert_eq!(note(&of(&[column])[0]), None);
}

#[test]
fn a_row_says_why_its_boots_counted_nothing() {
    let mut uncounted = row("rr", &[100.0]);
    uncounted.counted = Some(Err("no tracefs".to_owned()));
    let rows = of(&[column("a", vec![vec![uncounted]])]);
    let measured = rows[0].measured().unwrap();
    assert_eq!(measured.exits_note.as_deref(), Some("no tracefs"));
    assert_eq!(measured.exits, None);
}

#[test]
fn a_column_says_what_became_of_its_boots() {
    let mut column = column("a", vec![vec![row("cpuid", &[1.0])]]);
    column.hung = Some((1, "it hung".to_owned()));
    let vmm = column.vmm();
    assert_eq!((vmm.status, vmm.boots), (Status::Ok, 1));
    assert_eq!(vmm.repeated.as_deref(), Some("it hung"));
    column.hung = Some((3, "it hung".to_owned()));
    column.failure = Some(VmmFailure {
        reason: "it hung too often".to_owned(),
        last: Some("bye".to_owned()),
        hung: true,
    });
    let vmm = column.vmm();
    assert_eq!(vmm.status, Status::Failed);
    assert_eq!(vmm.reason.as_deref(), Some("it hung too often"));
    assert_eq!(vmm.last_output.as_deref(), Some("bye"));
    assert_eq!(vmm.repeated.as_deref(), Some("it hung (the last of 3)"));
    let absent = BootColumn::new(Double("b"), Err("it is not on PATH".to_owned())).vmm();
    assert_eq!(absent.status, Status::Skipped);
    assert_eq!(absent.reason.as_deref(), Some("it is not on PATH"));
}
