use super::super::expected::{self, AARCH64, X86_64};
use super::*;
use vmbell_report::Exits;

/// A stored report with the rows that are checked, all as they should be.
pub(in super::super) fn good_report(expected: &Expected) -> Report {
    let oldest = include_str!("../../../../crates/report/tests/data/report-v1.json");
    let oldest = vmbell_report::parse(oldest).unwrap();
    let row = |name: &str, exits| Row {
        command: name.to_owned(),
        status: Status::Ok,
        reason: None,
        instructions: Some(2985.0),
        exits,
        ..oldest.results[0].clone()
    };
    let counted = |(name, heavy): &expected::Exits, light| {
        let (light, heavy) = (Some(light), *heavy);
        row(name, Some(Exits { light, heavy }))
    };
    let rows = expected.rows.iter().map(|row| counted(row, 1.0 - row.1));
    let floors = expected.floors.iter().map(|(_, floor)| row(floor, None));
    let assigned = expected.assigned.iter().map(|row| counted(row, 0.0));
    let mut report = Report {
        timing: Timing::Instructions,
        results: rows.chain(floors).chain(assigned).collect(),
        ..oldest.clone()
    };
    for (name, other, _) in expected.ratios {
        if find(&report, other).is_none() {
            report.results.push(row(other, None));
        }
        of(&mut report, name).instructions = Some(1000.0);
    }
    report
}

fn of<'r>(report: &'r mut Report, name: &str) -> &'r mut Row {
    let row = |row: &&mut Row| row.command == name;
    report.results.iter_mut().find(row).unwrap()
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
        assert_eq!(failures(&report, expected), [*fault]);
    }
}

#[test]
fn each_fault_is_found() {
    each_is_found(
        &X86_64,
        &[
            (
                |report| report.results[7].status = Status::Skipped,
                "floor-kvm-run-pio was skipped: no reason given",
            ),
            (
                |report| report.results[7].status = Status::Failed,
                "floor-kvm-run-pio failed: no reason given",
            ),
            (|report| report.timing = Timing::Native, "timing is Native"),
            (
                |report| report.backend.emulates_kernel_mode = true,
                "kvm emulates the guest's kernel mode",
            ),
            (
                |report| report.results[1].exits.as_mut().unwrap().heavy = 0.0005,
                "portio-wildcard-eventfd has 0.0005 heavy exits for each operation instead of 0",
            ),
            (
                |report| report.results[1].exits.as_mut().unwrap().light = Some(0.5),
                "portio-wildcard-eventfd has 0.5 exits for each operation",
            ),
            (
                |report| report.results[1].exits.as_mut().unwrap().light = None,
                "portio-wildcard-eventfd has no count of light exits",
            ),
            (
                |report| report.results[1].instructions = None,
                "portio-wildcard-eventfd has no count of instructions",
            ),
            (
                |report| report.results[1].status = Status::Skipped,
                "portio-wildcard-eventfd skipped: no reason given",
            ),
            (
                |report| report.results[0].instructions = Some(4000.0),
                "portio-no-eventfd has Some(4000.0) instructions, its floor Some(2985.0): at most 350 more are good",
            ),
            (
                |report| drop(report.results.remove(8)),
                "mmio-no-eventfd has Some(2985.0) instructions, its floor None: at most 350 more are good",
            ),
            (
                |report| report.results[9].exits.as_mut().unwrap().heavy = 0.0005,
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
                |report| of(report, FORWARDED).exits.as_mut().unwrap().light = Some(1.2),
                "platform-irq-forwarded has Some(1.2) exits for each operation: at most 1.1 are good",
            ),
            (
                |report| of(report, FORWARDED).instructions = Some(1500.0),
                "platform-irq-forwarded has Some(1500.0) instructions, platform-irq-resample Some(2985.0): \
                 at most 0.5 of that is good",
            ),
        ],
    );
}
