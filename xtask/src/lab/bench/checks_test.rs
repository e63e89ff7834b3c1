use super::super::expected::{self, AARCH64, X86_64};
use super::*;
use vmbell_report::{Exits, Outcome};

/// Makes a report from a stored one, with all rows that are checked, and correct.
pub(in super::super) fn good_report(expected: &Expected) -> Report {
    let stored = include_str!("../../../../crates/report/tests/data/report.json");
    let stored = vmbell_report::parse(stored).unwrap();
    let row = |name: &str, exits| {
        let mut row = stored.results[0].clone();
        row.command = name.to_owned();
        let measured = row.measured_mut().unwrap();
        measured.times.median = 2985.0;
        measured.exits = exits;
        row
    };
    let counted = |(name, userspace): &expected::ExpectedExits, light| {
        let (total, userspace) = (Some(light + userspace), Some(*userspace));
        row(name, Some(Exits { total, userspace }))
    };
    let rows = expected.rows.iter().map(|row| counted(row, 1.0 - row.1));
    let floors = expected.floors.iter().map(|(_, floor)| row(floor, None));
    let assigned = expected.assigned.iter().map(|row| counted(row, 0.0));
    let mut report = stored.clone();
    report.timing = Timing::Instructions;
    report.results = rows.chain(floors).chain(assigned).collect();
    for (name, other, _) in expected.ratios {
        if find(&report, other).is_none() {
            report.results.push(row(other, None));
        }
        numbers(of(&mut report, name)).times.median = 1000.0;
    }
    report
}

fn of<'r>(report: &'r mut Report, name: &str) -> &'r mut Row {
    let row = |row: &&mut Row| row.command == name;
    report.results.iter_mut().find(row).unwrap()
}

fn numbers(row: &mut Row) -> &mut vmbell_report::Measured {
    row.measured_mut().unwrap()
}

fn exits(row: &mut Row) -> &mut Exits {
    numbers(row).exits.as_mut().unwrap()
}

#[test]
fn a_good_report_has_no_fault() {
    for expected in [X86_64, AARCH64] {
        let failures = failures(&good_report(&expected), &expected);
        assert_eq!(failures, Vec::<String>::new());
    }
}

type Spoil = fn(&mut Report);

fn each_is_found(expected: &Expected, cases: &[(Spoil, &str)]) {
    for (spoil, fault) in cases {
        let mut report = good_report(expected);
        spoil(&mut report);
        // A floor without figures is one fault, and the row that is compared with the floor is a second fault.
        let found = failures(&report, expected);
        assert_eq!(found.first().map(String::as_str), Some(*fault));
    }
}

#[test]
fn each_fault_is_found() {
    each_is_found(
        &X86_64,
        &[
            (
                |report| {
                    of(report, "floor-kvm-run-pio").outcome = Outcome::Skipped { reason: None }
                },
                "floor-kvm-run-pio was skipped: no reason given",
            ),
            (
                |report| of(report, "floor-kvm-run-pio").outcome = Outcome::Failed { reason: None },
                "floor-kvm-run-pio failed: no reason given",
            ),
            (|report| report.timing = Timing::Native, "timing is Native"),
            (
                |report| report.backends[0].emulates_kernel_mode = true,
                "kvm emulates the guest's kernel mode",
            ),
            (
                |report| exits(&mut report.results[1]).userspace = Some(0.0005),
                "portio-wildcard-eventfd has 0.0005 heavy exits for each operation instead of 0",
            ),
            (
                |report| exits(&mut report.results[1]).total = Some(0.5),
                "portio-wildcard-eventfd has 0.5 exits for each operation",
            ),
            (
                |report| exits(&mut report.results[1]).total = None,
                "portio-wildcard-eventfd has no count of light exits",
            ),
            (
                |report| numbers(&mut report.results[1]).times.median = 0.0,
                "portio-wildcard-eventfd has no count of instructions",
            ),
            (
                |report| report.results[1].outcome = Outcome::Skipped { reason: None },
                "portio-wildcard-eventfd skipped: no reason given",
            ),
            (
                |report| numbers(&mut report.results[0]).times.median = 4000.0,
                "portio-no-eventfd has Some(4000.0) instructions, its floor Some(2985.0): at most 350 more are good",
            ),
            (
                |report| {
                    report
                        .results
                        .retain(|row| row.command != "floor-kvm-run-mmio");
                },
                "mmio-no-eventfd has Some(2985.0) instructions, its floor None: at most 350 more are good",
            ),
            (
                |report| exits(of(report, "passthrough-intx-irqfd")).userspace = Some(0.0005),
                "passthrough-intx-irqfd has 0.0005 heavy exits for each operation instead of 0",
            ),
            (
                |report| drop(report.results.remove(1)),
                "portio-wildcard-eventfd is missing",
            ),
        ],
    );
}

#[test]
fn a_forwarded_interrupt_that_costs_too_much_is_found() {
    const FORWARDED: &str = "platform-irq-forwarded";
    each_is_found(
        &AARCH64,
        &[
            (
                |report| exits(of(report, FORWARDED)).total = Some(1.2),
                "platform-irq-forwarded has Some(1.2) exits for each operation: at most 1.1 are good",
            ),
            (
                |report| numbers(of(report, FORWARDED)).times.median = 1500.0,
                "platform-irq-forwarded has Some(1500.0) instructions, platform-irq-resample Some(2985.0): \
                 at most 0.5 of that is good",
            ),
        ],
    );
}
