use super::*;
use crate::gate::figures::{BootRange, GateFigures};
use crate::{ExitReasons, Timing, json_by_row, parse, sample};

/// The instructions of each batch of a row, its exits and how many go to the VMM, and the exits' reasons.
pub(in crate::gate) struct OfBoot<'a> {
    pub(in crate::gate) row: &'a str,
    pub(in crate::gate) batches: &'a [f64],
    pub(in crate::gate) exits: Option<[f64; 2]>,
    pub(in crate::gate) events: &'a [(&'a str, u64)],
}

/// What one boot of the VMM `vmm` measured.
pub(in crate::gate) fn boot(seed: u64, rows: &[OfBoot<'_>]) -> Report {
    let row = |of: &OfBoot<'_>| {
        let mut row = sample::of_vmm("vmm", of.row, 1.0);
        let measured = sample::of(&mut row);
        let ops = of.batches.iter().map(|_| 20).collect();
        *measured = Measured::of(Times::of(of.batches, ops).unwrap());
        measured.exits = of.exits.map(|[total, userspace]| Exits {
            total: Some(total),
            userspace: Some(userspace),
        });
        measured.exit_reasons = of.exits.map(|[total, _]| ExitReasons {
            kvm_exit: [("interrupt".to_owned(), 0.01), ("io".to_owned(), total)].into(),
            kvm_userspace_exit: BTreeMap::new(),
        });
        let events = of.events.iter();
        measured.events = events
            .map(|(name, count)| ((*name).to_owned(), vec![*count]))
            .collect();
        row
    };
    Report {
        seed,
        timing: Timing::Instructions,
        ..sample::of_vmms(
            vec![sample::vmm("vmm", 1, false)],
            rows.iter().map(row).collect(),
        )
    }
}

fn of(batches: &[f64]) -> OfBoot<'_> {
    OfBoot {
        row: "cpuid",
        batches,
        exits: Some([1.0, 0.0]),
        events: &[],
    }
}

fn figures(report: &Report, row: usize) -> GateFigures {
    GateFigures::of(report.results[row].measured().unwrap()).unwrap()
}

#[test]
fn a_boot_gives_the_median_of_its_batches() {
    let boots = [
        boot(1, &[of(&[30.0, 10.0, 20.0])]),
        boot(
            2,
            &[OfBoot {
                exits: Some([0.95, 0.05]),
                ..of(&[21.0])
            }],
        ),
    ];
    let merged = merged(&boots).unwrap();
    assert_eq!(merged.results[0].times().unwrap().samples, [20.0, 21.0]);
    assert_eq!(merged.results[0].times().unwrap().ops, [60, 20]);
    let figures = figures(&merged, 0);
    assert_eq!(figures.instructions, BootRange([20.0, 20.5, 21.0]));
    assert_eq!(figures.exits, Some(BootRange([0.95, 0.975, 1.0])));
    assert_eq!(figures.to_vmm, Some(BootRange([0.0, 0.025, 0.05])));
    // Exits that the host causes do not count as the guest's.
    assert_eq!(figures.reasons, [("io".to_owned(), 0.975)].into());
    assert_eq!(merged.vmms()[0].boots, 2);
}

#[test]
fn reasons_and_addresses_are_medians_over_boots_and_one_that_a_boot_lacks_is_zero() {
    let linux = |exits, events| OfBoot {
        row: "linux-boot",
        exits: Some([exits, exits]),
        events,
        ..of(&[7.0])
    };
    let boots = [
        boot(1, &[linux(3.0, &[("port 0x70", 800), ("port 0x80", 20)])]),
        boot(2, &[linux(3.0, &[("port 0x70", 1200)])]),
        boot(3, &[linux(4.0, &[("port 0x70", 1000)])]),
    ];
    let figures = figures(&merged(&boots).unwrap(), 0);
    assert_eq!(figures.addresses, [("port 0x70".to_owned(), 50.0)].into());
    assert_eq!(figures.reasons, [("io".to_owned(), 3.0)].into());
}

#[test]
fn a_row_that_no_boot_measured_keeps_its_reason_and_one_that_some_measured_has_their_numbers() {
    let without = |row| {
        let mut row = sample::of_vmm("vmm", row, 1.0);
        row.outcome = Outcome::Skipped {
            reason: Some("there is no clock".to_owned()),
        };
        row
    };
    let mut boots = [boot(1, &[of(&[5.0])]), boot(2, &[])];
    boots[0].results.push(without("rtc-read"));
    boots[1]
        .results
        .extend([without("cpuid"), without("rtc-read")]);
    let merged = merged(&boots).unwrap();
    assert_eq!(figures(&merged, 0).instructions, BootRange([5.0; 3]));
    assert_eq!(merged.results[1].reason(), Some("there is no clock"));
}

#[test]
fn exits_are_those_of_the_boots_that_counted_them() {
    let lost = OfBoot {
        exits: None,
        ..of(&[9.0])
    };
    let both = merged(&[boot(1, &[of(&[5.0])]), boot(2, &[lost])]).unwrap();
    assert_eq!(figures(&both, 0).exits, Some(BootRange([1.0; 3])));
    assert_eq!(figures(&both, 0).instructions, BootRange([5.0; 3]));
    let lost = OfBoot {
        exits: None,
        ..of(&[9.0])
    };
    let none = merged(&[boot(1, &[lost])]).unwrap();
    assert_eq!(figures(&none, 0).exits, None);
}

#[test]
fn a_baseline_has_a_line_for_each_row_and_the_same_figures_when_it_is_read() {
    let hlt = |batches| OfBoot {
        row: "hlt-wake",
        ..of(batches)
    };
    let boots = [
        boot(1, &[hlt(&[2991.123]), of(&[5.0])]),
        boot(2, &[of(&[5.0]), hlt(&[2990.0])]),
    ];
    let written = merged(&boots).unwrap();
    let text = json_by_row(&written);
    let read = parse(&text).unwrap();
    for row in [0, 1] {
        assert_eq!(figures(&read, row), figures(&written, row));
    }
    let line = |name: &str| text.lines().filter(|line| line.contains(name)).count();
    assert_eq!((line("\"cpuid\""), line("\"hlt-wake\"")), (1, 1));
    // The order of rows depends on the seed, but the baseline does not.
    let names: Vec<&str> = written
        .results
        .iter()
        .map(|row| row.command.as_str())
        .collect();
    assert_eq!(names, ["cpuid", "hlt-wake"]);
}

#[test]
fn boots_are_the_runs_of_a_report_and_their_times_are_summed() {
    let mut boots = [boot(1, &[of(&[5.0])]), boot(2, &[of(&[6.0])])];
    for (boot, duration) in boots.iter_mut().zip([1.5, 2.0]) {
        boot.duration = duration;
        (boot.plan.runs, boot.plan.finished, boot.plan.ops) = (9, 8, Some(20));
    }
    let merged = merged(&boots).unwrap();
    assert_eq!(merged.duration, 3.5);
    let plan = merged.plan;
    assert_eq!((plan.runs, plan.finished, plan.ops), (2, 2, Some(180)));
}

#[test]
fn without_boots_there_is_no_report() {
    assert_eq!(merged(&[]), None);
}

proptest::proptest! {
    /// Exits per operation can be recovered from counts over all operations.
    #[test]
    fn exits_of_an_operation_are_found_again(exits in 0..20_000_u32, batches in 1..9_usize) {
        let each = f64::from(exits) / 20.0;
        let batches = vec![1.0; batches];
        let row = OfBoot { exits: Some([each, 0.0]), ..of(&batches) };
        let merged = merged(&[boot(1, &[row])]).unwrap();
        proptest::prop_assert_eq!(figures(&merged, 0).exits, Some(BootRange([each; 3])));
        let exits = merged.results[0].exits().unwrap();
        proptest::prop_assert_eq!((exits.total, exits.userspace), (Some(each), Some(0.0)));
    }
}
