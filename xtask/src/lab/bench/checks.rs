//! Compares a report with what it has to say.

use vmbell_report::{Report, Row, Status, Timing};

use super::expected::{Expected, OVERHEAD};

/// Returns what is wrong with the report.
pub(super) fn failures(report: &Report, expected: &Expected) -> Vec<String> {
    let mut failures = Vec::new();
    if report.timing != Timing::Instructions {
        failures.push(format!("timing is {:?}", report.timing));
    }
    if report
        .backends
        .iter()
        .any(|backend| backend.emulates_kernel_mode)
    {
        failures.push("kvm emulates the guest's kernel mode".to_owned());
    }
    let rows = || {
        let rows = expected.rows.iter().map(|row| (row, 1.0));
        rows.chain(expected.assigned.iter().map(|row| (row, 0.0)))
    };
    let is_main = |row: &&Row| rows().any(|((name, _), _)| *name == row.command);
    for row in report.results.iter().filter(|row| !is_main(row)) {
        failures.extend(unmeasured(row, expected));
    }
    for ((name, userspace), least) in rows() {
        let reason = find(report, name).map_or(Some("is missing".to_owned()), |row| {
            fault(row, *userspace, least)
        });
        failures.extend(reason.map(|reason| format!("{name} {reason}")));
    }
    failures.extend(expected.most.iter().filter_map(|(name, most)| {
        let exits = find(report, name).and_then(exits);
        let is_good = exits.is_some_and(|exits| exits <= *most);
        (!is_good).then(|| {
            format!("{name} has {exits:?} exits for each operation: at most {most} are good")
        })
    }));
    let instructions = |name: &str| find(report, name)?.median();
    failures.extend(expected.floors.iter().filter_map(|(name, floor)| {
        match (instructions(name), instructions(floor)) {
            (Some(row), Some(bare)) if row - bare <= OVERHEAD => None,
            (row, bare) => Some(format!(
                "{name} has {row:?} instructions, its floor {bare:?}: at most {OVERHEAD} more are good"
            )),
        }
    }));
    failures.extend(expected.ratios.iter().filter_map(|(name, other, most)| {
        match (instructions(name), instructions(other)) {
            (Some(one), Some(two)) if one <= most * two => None,
            (one, two) => Some(format!(
                "{name} has {one:?} instructions, {other} {two:?}: at most {most} of that is good"
            )),
        }
    }));
    failures
}

fn find<'r>(report: &'r Report, name: &str) -> Option<&'r Row> {
    report.results.iter().find(|row| row.command == name)
}

/// Returns the number of exits per operation, if exits are counted.
fn exits(row: &Row) -> Option<f64> {
    row.exits()?.total
}

/// Returns why a row without figures is a failure; `None` if it has figures or a good reason.
fn unmeasured(row: &Row, expected: &Expected) -> Option<String> {
    let reason = row.reason().unwrap_or("no reason given");
    match row.status() {
        Status::Failed => Some(format!("{} failed: {reason}", row.command)),
        Status::Skipped if !expected.skips.iter().any(|good| reason.contains(good)) => {
            Some(format!("{} was skipped: {reason}", row.command))
        }
        _ => None,
    }
}

/// Returns what is wrong with a row that must have at least `least` exits per operation; `None` if it is right.
fn fault(row: &Row, userspace: f64, least: f64) -> Option<String> {
    if !row.is_ok() {
        let reason = row.reason().unwrap_or("no reason given");
        return Some(format!("{}: {reason}", row.status().name()));
    }
    let Some(counted) = row.exits() else {
        return Some("has no exit counts".to_owned());
    };
    if counted.userspace != Some(userspace) {
        let found = counted.userspace.unwrap_or_default();
        return Some(format!(
            "has {found} heavy exits for each operation instead of {userspace}"
        ));
    }
    let Some(total) = exits(row) else {
        return Some("has no count of light exits".to_owned());
    };
    if total < least {
        return Some(format!("has {total} exits for each operation"));
    }
    match row.median() {
        Some(count) if count > 0.0 => None,
        _ => Some("has no count of instructions".to_owned()),
    }
}

#[cfg(test)]
#[path = "checks_test.rs"]
mod tests;
#[cfg(test)]
pub(super) use tests::good_report;
