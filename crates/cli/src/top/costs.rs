//! `--costs`: what operations cost on this host, from a report of `vmbell bench`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::compare::shown;
use crate::output::text::made_visible;
use vmbell_bench::{host, timing};
use vmbell_report::{Host, Report, Timing, parse, visible};
use vmbell_top::costs::Costs;

/// The backend whose rows are used, because the shown VMs run on it.
const BACKEND: &str = "kvm";

/// Shown without `--costs`: how to measure costs.
pub(super) const HINT: &str = "costs: unknown; `vmbell bench --all --export-json FILE` measures them, and --costs FILE shows them";

/// Reads a report of this host.
pub(super) fn read(path: &Path) -> Result<Costs> {
    let cannot = || format!("cannot take costs from '{}'", shown(path));
    let text = fs::read_to_string(path).with_context(cannot)?;
    let report = parse(&text).map_err(made_visible).with_context(cannot)?;
    of(&report, &host::probe(), timing::here()?).with_context(cannot)
}

fn of(report: &Report, host: &Host, timing: Timing) -> Result<Costs> {
    let differences = report.host.differences(host);
    if !differences.is_empty() {
        let differences = visible(&differences.join("; "));
        bail!("it is of another host; there and here differ: {differences}");
    }
    if report.timing != timing {
        let [there, here] = [report.timing, timing].map(Timing::name);
        bail!("its times are {there}, and here they are {here}");
    }
    let rows = report.results.iter();
    let rows = rows.filter(|row| row.backend == BACKEND && row.bound().is_none());
    let rows: Vec<_> = rows
        .filter_map(|row| Some((row.command.clone(), row.median()?)))
        .collect();
    if rows.is_empty() {
        bail!("it has no measured row of the backend {BACKEND}");
    }
    Ok(Costs::new(rows))
}

#[cfg(test)]
#[path = "costs_test.rs"]
mod tests;
