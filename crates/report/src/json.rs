//! The report as JSON, and back.

use super::{Report, SCHEMA_VERSION};

/// Why a file is not a report that this version understands.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// Not JSON, or not of this shape.
    #[error("not a report of vmbell")]
    Shape(#[source] serde_json::Error),
    /// Of another version.
    #[error("schema version {found} is not {SCHEMA_VERSION}, which this version reads")]
    Version {
        /// The version that it names.
        found: u64,
    },
}

/// What must be known of a file to read the rest.
#[derive(serde::Deserialize)]
struct Version {
    schema_version: u64,
}

/// Writes `report` as indented JSON with a newline at its end.
pub fn json(report: &Report) -> String {
    let mut text = serde_json::to_string_pretty(report)
        .expect("invariant: a report has no map with keys that are not strings");
    text.push('\n');
    text
}

/// Reads a report. Fields that this version does not know are ignored.
pub fn parse(text: &str) -> Result<Report, ParseError> {
    let version: Version = serde_json::from_str(text).map_err(ParseError::Shape)?;
    match version.schema_version {
        found if found != u64::from(SCHEMA_VERSION) => Err(ParseError::Version { found }),
        _ => serde_json::from_str(text).map_err(ParseError::Shape),
    }
}

#[cfg(test)]
#[path = "json_test.rs"]
mod tests;
