//! Makes a report's rows of what the boots gave.

use super::args::Device;
use super::document::{Batches, DocumentRow};
use super::turns::{Column, Exits};
use crate::columns::{self, Measured, compare};
use vmbell_bench::Clock;
use vmbell_report::statistics::thousandths;
use vmbell_report::{Row, Timing};

/// The image's reason of a row that its command line leaves out.
const NOT_ASKED_FOR: &str = "not asked for";
/// The hypervisor's signature in the CPUID of QEMU's TCG.
const TCG: &str = "TCGTCGTCGTCG";

/// What all rows need to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'a> {
    /// The counter of this host, for a guest that cannot tell the frequency of its own.
    pub(super) clock: &'a Clock,
    /// What a nanosecond stands for.
    pub(super) timing: Timing,
    /// The devices that were asked for.
    pub(super) devices: &'a [Device],
}

/// Whether the guest ran on an emulated CPU.
pub(super) fn is_emulated(column: &Column) -> bool {
    let signature = column
        .boots
        .iter()
        .find_map(|boot| boot.guest.hypervisor.as_deref());
    column.accel == "tcg" || signature == Some(TCG)
}

/// The rows of all columns, with ratios to the first one that has results.
pub(super) fn rows(columns: &[Column], facts: Facts<'_>) -> Vec<Row> {
    let mut rows: Vec<Row> = columns
        .iter()
        .flat_map(|column| of_column(column, facts))
        .collect();
    let Some(first) = columns.iter().find(|column| !column.boots.is_empty()) else {
        return rows;
    };
    if is_emulated(first) {
        return rows;
    }
    let of_first = |row: &&Row| row.backend == first.launcher.name();
    let references: Vec<Row> = rows.iter().filter(of_first).cloned().collect();
    for column in columns.iter().filter(|column| !is_emulated(column)) {
        let name = column.launcher.name();
        for row in rows
            .iter_mut()
            .filter(|row| row.backend == name && name != first.launcher.name())
        {
            let old = references.iter().find(|old| old.command == row.command);
            if let Some(old) = old {
                compare(row, old);
            }
        }
    }
    rows
}

fn of_column(column: &Column, facts: Facts<'_>) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let first = column.boots.first().map_or(&[][..], |boot| &boot.rows);
    for named in first.iter().filter(|row| is_wanted(row, facts.devices)) {
        let boots = column.boots.iter().flat_map(|boot| &boot.rows);
        let same: Vec<&DocumentRow> = boots.filter(|row| row.name == named.name).collect();
        let batches: Vec<&Batches> = same
            .iter()
            .filter_map(|row| row.result.as_ref().ok())
            .collect();
        let hz = match facts.timing {
            Timing::Instructions => facts.clock.hz(),
            Timing::Native | Timing::Emulated => {
                let told = column.boots.iter().find_map(|boot| boot.guest.tsc_hz);
                told.unwrap_or_else(|| facts.clock.hz())
            }
        };
        let reason = same.iter().find_map(|row| row.result.as_ref().err());
        let mut row = row(column, named, (&batches, hz), reason, facts.timing);
        if let (Exits::Counted(counted), Some(measured)) = (&column.exits, row.measured_mut()) {
            match counted.of(&named.name) {
                Ok(counted) => {
                    measured.exits = counted.exits;
                    measured.exit_reasons = Some(counted.reasons.clone());
                }
                Err(reason) => measured.exits_note = Some(reason.to_owned()),
            }
        }
        rows.push(row);
    }
    rows
}

/// Whether a row without numbers says anything that the user did not ask for.
fn is_wanted(row: &DocumentRow, devices: &[Device]) -> bool {
    let Err(reason) = &row.result else {
        return true;
    };
    let kind = row
        .name
        .strip_prefix("virtio-")
        .and_then(|rest| rest.split('-').next());
    let is_asked_for = kind.is_none_or(|kind| devices.iter().any(|device| device.name() == kind));
    is_asked_for && reason != NOT_ASKED_FOR
}

#[allow(clippy::cast_precision_loss, reason = "far fewer operations than 2^53")]
fn row(
    column: &Column,
    named: &DocumentRow,
    (batches, hz): (&[&Batches], f64),
    reason: Option<&String>,
    timing: Timing,
) -> Row {
    let of_boot = |boot: &&Batches| {
        let operations = boot.operations as f64;
        let one = move |ticks: &u64| thousandths(*ticks as f64 * 1e9 / hz / operations);
        boot.ticks.iter().map(one).collect::<Vec<f64>>()
    };
    let samples: Vec<f64> = batches.iter().flat_map(of_boot).collect();
    let ops: Vec<u64> = batches
        .iter()
        .flat_map(|boot| boot.ticks.iter().map(|_| boot.operations))
        .collect();
    columns::row(Measured {
        name: &named.name,
        vmm: column.launcher.name(),
        samples,
        ops,
        reason: reason.cloned(),
        timing,
        is_emulated: is_emulated(column),
    })
}

#[cfg(test)]
#[path = "rows_test.rs"]
mod tests;
