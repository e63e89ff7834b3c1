//! Makes the report of what the boots gave.

use super::args::VmmArgs;
use super::rows::{self, Facts};
use super::turns::{Column, Exits};
use crate::columns::{self, Begun, State};
use vmbell_report::{Kind, Planned, Report, Vmm};

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
        runs: args.columns.runs.saturating_mul(args.batches),
        finished: finished.saturating_mul(args.batches),
        warmup: 0,
        min_time: 0.0,
        ops: Some(args.ops.into()),
    };
    begun.report(plan, Kind::Vmms(vmms), rows, interrupted)
}

fn vmm(column: &Column) -> Vmm {
    Vmm {
        emulated: rows::is_emulated(column),
        guest: column.boots.first().map(|boot| boot.guest.clone()),
        exits_reason: match &column.exits {
            Exits::Uncounted(reason) => Some(reason.clone()),
            Exits::Off | Exits::Counted(_) => None,
        },
        ..columns::vmm(State {
            name: column.launcher.name(),
            program: &column.program,
            version: &column.version,
            boots: column.boots.len(),
            failure: column.failure.as_ref(),
            repeated: &column.repeated,
        })
    }
}
