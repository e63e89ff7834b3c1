//! The verdict of a gate as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figures::Figures;
use super::verdict::{Measured, Place, Verdict};

/// The version of this format.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    within_budget: bool,
    #[serde(flatten)]
    verdict: &'a Verdict,
    measured: Vec<OfPlace<'a>>,
}

#[derive(Serialize)]
struct OfPlace<'a> {
    #[serde(flatten)]
    place: &'a Place,
    version: Option<String>,
    rows: BTreeMap<String, Figures>,
}

/// Writes the verdict with all that was measured. A range is an array: the least, the median and the most.
pub fn json(verdict: &Verdict, now: &BTreeMap<Place, Measured>) -> String {
    let of_place = |(place, measured): (_, &'_ Measured)| OfPlace {
        place,
        version: measured.version.clone(),
        rows: measured.rows.clone(),
    };
    let document = Document {
        schema: SCHEMA,
        within_budget: verdict.is_within(),
        verdict,
        measured: now.iter().map(of_place).collect(),
    };
    // Strings, numbers and maps with keys of strings are always JSON.
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}
