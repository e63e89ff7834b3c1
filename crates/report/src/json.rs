//! A report as JSON: writes one, and reads one that may have a different format, be damaged or be no report at all.
//!
//! An error says where in the file reading ended, for the person who named the file.

use serde::Serialize;
use serde_json::{Map, Value};

use super::text::{shortened, without_bom};
use super::units::thousandths;
use super::{Report, Row, Timing};

/// The format that this code writes and reads.
pub const SCHEMA_VERSION: u64 = 2;

/// No number of a report is larger: in nanoseconds it is 30,000 years. Sums and squares of such numbers are finite.
const LARGEST: f64 = 1e21;

/// Why a text could not be read as a report.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no text.
    #[error("it is empty")]
    Empty,
    /// The text is not JSON, or ends before its JSON does.
    #[error("it is not whole JSON: reading ended at {path}")]
    Syntax {
        /// The field at which reading ended.
        path: String,
        /// What is wrong, with the line.
        #[source]
        source: serde_json::Error,
    },
    /// The text is what hyperfine writes.
    #[error(
        "it is a report of hyperfine, not of vmbell: it does not say what was measured on which host"
    )]
    Hyperfine,
    /// The text is what `vmbell compare --export-json` writes.
    #[error("it is a comparison, not a report: name the reports that it compares")]
    Comparison,
    /// The text is JSON, but not of vmbell.
    #[error("it is JSON but not a vmbell report: it has no 'schema_version'")]
    Foreign,
    /// The report has a different format.
    #[error(
        "its format ('schema_version') is {found}, and this vmbell reads {SCHEMA_VERSION}: read it with the vmbell that wrote it, or \
             measure again"
    )]
    Format {
        /// The `schema_version` of the text.
        found: String,
    },
    /// A field is missing or has the wrong type.
    #[error("{path} cannot be read")]
    Field {
        /// The field.
        path: String,
        /// What is wrong, with the line.
        #[source]
        source: serde_json::Error,
    },
    /// A number that no measurement gives and that breaks calculations.
    #[error("{path} is {number:e}, which no measurement gives")]
    Number {
        /// The field.
        path: String,
        /// The number.
        number: f64,
    },
    /// A row in which the number of samples is not the number of runs.
    #[error("its row '{row}' has {ops} numbers of operations for {samples} samples")]
    Runs {
        /// The row's name.
        row: String,
        /// How many numbers of operations the row has.
        ops: usize,
        /// How many samples the row has.
        samples: usize,
    },
}

/// What the measuring commands of vmbell write as JSON; docs/report-schema.md explains it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(title = "vmbell report"))]
struct ReportFile {
    /// The version of the format: raised when a field is removed or changes its meaning.
    #[cfg_attr(test, schemars(extend("const" = SCHEMA_VERSION)))]
    schema_version: u64,
    #[serde(flatten)]
    report: Report,
}

/// Writes `report` as indented JSON with a newline at its end.
pub fn json(report: &Report) -> String {
    indented(&file(report))
}

/// Writes `report` with one line for each row, so that a diff shows which rows changed.
pub fn json_by_row(report: &Report) -> String {
    let mut file = file(report);
    let rows = std::mem::take(&mut file.report.results);
    let line =
        |row: &Row| serde_json::to_string(row).expect("invariant: a row is JSON in a report");
    let lines: Vec<String> = rows.iter().map(line).collect();
    let lines = format!("\"results\": [\n{}\n  ]", lines.join(",\n"));
    // Quotes inside a text would be escaped, so this matches only the field.
    indented(&file).replacen("\"results\": []", &lines, 1)
}

fn file(report: &Report) -> ReportFile {
    let mut report = report.clone();
    if report.timing == Timing::Instructions {
        for row in &mut report.results {
            if let Some(measured) = row.measured_mut() {
                let times = &mut measured.times;
                times.instructions = Some(thousandths(times.median));
            }
        }
    }
    ReportFile {
        schema_version: SCHEMA_VERSION,
        report,
    }
}

fn indented(file: &ReportFile) -> String {
    let mut text = serde_json::to_string_pretty(file)
        .expect("invariant: a report has no map with keys that are not strings");
    text.push('\n');
    text
}

/// Reads a report. Fields that this version does not know are ignored.
pub fn parse(text: &str) -> Result<Report, ReadError> {
    let text = without_bom(text);
    if text.trim().is_empty() {
        return Err(ReadError::Empty);
    }
    // The text is read twice: as a value, whose format is checked before its fields, and as a report, because only errors in a
    // text have a line.
    let value = serde_json::from_str::<Value>(text);
    value.as_ref().map_or(Ok(()), check_format)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let report = serde_path_to_error::deserialize(&mut deserializer);
    let report: Report = report.map_err(|error| failure(value.is_ok(), error))?;
    // A report can be read although the text is not valid JSON: after the report, or in an ignored field.
    let value = value.map_err(|source| {
        let (path, source) = match deserializer.end() {
            Err(source) => ("its end", source),
            Ok(()) => ("a field that is not read", source),
        };
        let path = path.to_owned();
        ReadError::Syntax { path, source }
    })?;
    if let Some((path, number)) = too_large(value) {
        let path = format!("its field '{}'", path.trim_start_matches('.'));
        return Err(ReadError::Number { path, number });
    }
    for row in &report.results {
        if let Some(times) = row.times()
            && times.ops.len() != times.samples.len()
        {
            return Err(ReadError::Runs {
                row: row.command.clone(),
                ops: times.ops.len(),
                samples: times.samples.len(),
            });
        }
    }
    Ok(report)
}

/// Fails if this JSON is not a report of this format.
fn check_format(value: &Value) -> Result<(), ReadError> {
    let Some(object) = value.as_object() else {
        return Err(ReadError::Foreign);
    };
    if object.get("kind").is_some_and(|kind| kind == "comparison") {
        return Err(ReadError::Comparison);
    }
    match object.get("schema_version") {
        Some(found) if found.as_u64() == Some(SCHEMA_VERSION) => Ok(()),
        Some(found) => Err(ReadError::Format {
            found: shortened(&found.to_string(), 20),
        }),
        None if is_of_hyperfine(object) => Err(ReadError::Hyperfine),
        None => Err(ReadError::Foreign),
    }
}

/// The error of a field, or of the syntax if the text is not JSON.
fn failure(is_json: bool, error: serde_path_to_error::Error<serde_json::Error>) -> ReadError {
    let path = match error.path().to_string() {
        path if path == "." => "its outermost object".to_owned(),
        path => format!("its field '{path}'"),
    };
    let source = error.into_inner();
    match is_json {
        true => ReadError::Field { path, source },
        false => ReadError::Syntax { path, source },
    }
}

/// Finds the first number that is too large, and the path of its field.
fn too_large(value: Value) -> Option<(String, f64)> {
    let within = |step: String, value: Value| {
        let (path, number) = too_large(value)?;
        Some((step + &path, number))
    };
    match value {
        Value::Number(number) => {
            let number = number.as_f64().filter(|number| number.abs() > LARGEST)?;
            Some((String::new(), number))
        }
        Value::Array(values) => {
            let mut values = values.into_iter().enumerate();
            values.find_map(|(index, value)| within(format!("[{index}]"), value))
        }
        Value::Object(fields) => {
            let mut fields = fields.into_iter();
            fields.find_map(|(name, value)| within(format!(".{name}"), value))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}

/// Whether all results have the fields that hyperfine writes, and lack the fields that every row of a report has.
fn is_of_hyperfine(object: &Map<String, Value>) -> bool {
    let has = |result: &Value| {
        let fields = ["command", "times"];
        fields.iter().all(|field| result.get(field).is_some()) && result.get("backend").is_none()
    };
    let results = object.get("results").and_then(Value::as_array);
    results.is_some_and(|results| !results.is_empty() && results.iter().all(has))
}

#[cfg(test)]
#[path = "json_test.rs"]
mod tests;
