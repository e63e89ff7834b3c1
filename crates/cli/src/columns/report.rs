//! Makes the report of the columns, and shows it.

use anyhow::Result;

use super::args::ColumnArgs;
use super::rows::rows;
use super::{Column, Way};
use crate::deliver::{Delivery, deliver};
use crate::exit::Exit;
use crate::exports::Exports;
use crate::measured::{Begun, exit_of};
use vmbell_report::{Backend, Kind, Planned, Report, Vmm};

/// What a boot of each column is to give.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Batches of a row in each boot.
    pub(crate) batches: u32,
    /// Operations of each, if all rows have the same number.
    pub(crate) ops: Option<u64>,
}

/// Makes the report of `columns`, which `kind` makes of its VMMs.
pub(crate) fn report<W: Way>(
    begun: Begun,
    args: &ColumnArgs,
    (plan, columns): (Plan, &[Column<W>]),
    kind: fn(Vec<Vmm>) -> Kind,
    interrupted: bool,
) -> Report {
    let most = columns.iter().map(|column| column.boots.len()).max();
    let finished = u32::try_from(most.unwrap_or_default()).unwrap_or(u32::MAX);
    let plan = Planned {
        runs: args.runs.saturating_mul(plan.batches),
        finished: finished.saturating_mul(plan.batches),
        warmup: 0,
        min_time: 0.0,
        ops: plan.ops,
    };
    let results = rows(columns, begun.timing);
    let vmms: Vec<Vmm> = columns.iter().map(Column::vmm).collect();
    let backend = |vmm: &Vmm| Backend {
        name: vmm.name.clone(),
        why: vmm
            .version
            .clone()
            .or_else(|| vmm.program.clone())
            .unwrap_or_default(),
        emulates_kernel_mode: false,
    };
    let backends = vmms.iter().map(backend).collect();
    let mut common = begun.common(plan, backends, results);
    common.interrupted = interrupted;
    Report {
        common,
        kind: kind(vmms),
    }
}

/// Writes the report's files and prints its table; the exit status says whether every column gave results.
pub(crate) fn finish(report: &Report, exports: Exports, delivery: Delivery) -> Result<Exit> {
    deliver(report, exports, delivery, String::new)?;
    Ok(exit_of(report, report.vmms().iter().map(|vmm| vmm.status)))
}
