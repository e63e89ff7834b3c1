//! Makes the report of what the boots gave.

use super::args::VmmArgs;
use super::rows::{self, Facts};
use super::turns::{Column, Exits};
use crate::columns::Begun;
use vmbell_report::{Planned, Report, Status, Vmm};

/// Makes the report.
pub(super) fn report(
    begun: Begun,
    args: &VmmArgs,
    columns: &[Column],
    interrupted: bool,
) -> Report {
    let facts = Facts {
        clock: &begun.clock,
        timing: begun.timing,
        devices: &args.device,
    };
    let rows = rows::rows(columns, facts);
    let vmms: Vec<Vmm> = columns.iter().map(vmm).collect();
    let most = columns.iter().map(|column| column.boots.len()).max();
    let finished = u32::try_from(most.unwrap_or_default()).unwrap_or(u32::MAX);
    let plan = Planned {
        runs: args.runs.saturating_mul(args.batches),
        finished: finished.saturating_mul(args.batches),
        warmup: 0,
        min_time: 0.0,
        ops: Some(args.ops.into()),
    };
    begun.report(plan, vmms, rows, interrupted)
}

fn vmm(column: &Column) -> Vmm {
    let (status, reason, last) = match (&column.program, &column.failure) {
        (Err(reason), _) => (Status::Skipped, Some(reason.clone()), None),
        (_, Some(failure)) => (
            Status::Failed,
            Some(failure.reason.clone()),
            failure.last.clone(),
        ),
        (Ok(_), None) if column.boots.is_empty() => (
            Status::Skipped,
            Some("the command ended before its turn".to_owned()),
            None,
        ),
        (Ok(_), None) => (Status::Ok, None, None),
    };
    Vmm {
        name: column.launcher.name().to_owned(),
        status,
        reason,
        last_output: last,
        program: column
            .program
            .as_ref()
            .ok()
            .map(|path| path.display().to_string()),
        version: column.version.clone(),
        boots: u32::try_from(column.boots.len()).unwrap_or(u32::MAX),
        emulated: rows::is_emulated(column),
        guest: column.boots.first().map(|boot| boot.guest.clone()),
        repeated: column.repeated.clone(),
        exits_reason: match &column.exits {
            Exits::Uncounted(reason) => Some(reason.clone()),
            Exits::Off | Exits::Counted(_) => None,
        },
    }
}
