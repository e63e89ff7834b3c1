//! The comparison as JSON, which `docs/comparing.md` describes.

use serde::Serialize;

use super::Comparison;

/// The version of this JSON. As in a report, fields may be added without a new version.
const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize)]
struct ComparisonFile<'c> {
    schema_version: u32,
    /// Distinguishes the comparison from a report, which has no such field.
    kind: &'static str,
    #[serde(flatten)]
    comparison: &'c Comparison,
}

/// Writes `comparison` as indented JSON with a newline at its end.
pub fn json(comparison: &Comparison) -> String {
    let written = ComparisonFile {
        schema_version: SCHEMA_VERSION,
        kind: "comparison",
        comparison,
    };
    let mut text = serde_json::to_string_pretty(&written)
        .expect("invariant: a comparison has no map with keys that are not strings");
    text.push('\n');
    text
}

#[cfg(test)]
#[path = "json_test.rs"]
mod tests;
