//! Writing a report as JSON, and reading one.

use super::wire::Written;
use super::{Exporter, Report, SCHEMA_VERSION, TimeUnit};

/// Why a file is not a report that this version can read.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// The text is not JSON, or lacks a field, or a field has another type.
    #[error("not a report of vmbell")]
    Shape(#[source] serde_json::Error),
    /// The report has a later schema version.
    #[error(
        "schema version {found} is newer than {SCHEMA_VERSION}, the newest that this version reads"
    )]
    Version {
        /// The `schema_version` of the file.
        found: u64,
    },
}

/// The field that decides whether the rest can be read.
#[derive(serde::Deserialize)]
struct Version {
    schema_version: u64,
}

/// The format as an export.
#[derive(Debug)]
pub(super) struct Json;

impl Exporter for Json {
    fn option(&self) -> &'static str {
        "export-json"
    }

    fn extension(&self) -> &'static str {
        "json"
    }

    fn help(&self) -> &'static str {
        "Write the report as JSON; - is stdout"
    }

    fn write(&self, report: &Report, _: Option<TimeUnit>) -> String {
        json(report)
    }
}

/// Writes `report` as indented JSON with a newline at its end.
pub fn json(report: &Report) -> String {
    let mut text = serde_json::to_string_pretty(&Written::from(report))
        .expect("invariant: a report has no map with keys that are not strings");
    text.push('\n');
    text
}

/// Reads a report of this schema version or an earlier one. Fields that this version does not know are ignored.
pub fn parse(text: &str) -> Result<Report, ParseError> {
    let version: Version = serde_json::from_str(text).map_err(ParseError::Shape)?;
    match version.schema_version {
        found if found > u64::from(SCHEMA_VERSION) => Err(ParseError::Version { found }),
        _ => serde_json::from_str::<Written>(text)
            .map(Report::from)
            .map_err(ParseError::Shape),
    }
}

#[cfg(test)]
#[path = "json_test.rs"]
mod tests;
