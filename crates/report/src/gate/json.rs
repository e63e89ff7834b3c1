//! The verdict of a gate as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figures::GateFigures;
use super::verdict::{GatePlace, GateVerdict};
use crate::{Report, Row};

/// The version of this format.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct GateDocument<'a> {
    schema: u32,
    within_budget: bool,
    #[serde(flatten)]
    verdict: &'a GateVerdict,
    measured: Vec<MeasuredPlace<'a>>,
}

#[derive(Serialize)]
struct MeasuredPlace<'a> {
    #[serde(flatten)]
    place: GatePlace,
    version: Option<&'a str>,
    rows: BTreeMap<&'a str, GateFigures>,
}

/// Writes the verdict with everything that was measured, by kernel. A range is an array: minimum, median and maximum.
pub fn json(verdict: &GateVerdict, now: &BTreeMap<String, Report>) -> String {
    let places = now.iter().flat_map(|(kernel, report)| {
        report.vmms().iter().map(move |vmm| {
            let rows = report.results.iter().filter(|row| row.backend == vmm.name);
            MeasuredPlace {
                place: GatePlace {
                    kernel: kernel.clone(),
                    vmm: vmm.name.clone(),
                },
                version: vmm.version.as_deref(),
                rows: rows.filter_map(figures).collect(),
            }
        })
    });
    let document = GateDocument {
        schema: SCHEMA,
        within_budget: verdict.is_within(),
        verdict,
        measured: places.collect(),
    };
    let text = serde_json::to_string_pretty(&document);
    text.expect("invariant: a verdict has no map with keys that are not strings") + "\n"
}

fn figures(row: &Row) -> Option<(&str, GateFigures)> {
    Some((&row.command, GateFigures::of(row.measured()?)?))
}

#[cfg(test)]
#[path = "json_test.rs"]
mod tests;
