//! Reading a report that may be of a later version, damaged or none at all, and saying where it goes wrong.
//!
//! [`parse`](super::parse) is for files whose version is known; this is for those that a person names.

use serde_json::{Map, Value};

use super::text::without_bom;
use super::wire::Written;
use super::{Report, SCHEMA_VERSION};

/// No number of a report is larger: in nanoseconds it is 30,000 years. Sums and squares of such numbers are finite.
const LARGEST: f64 = 1e21;

/// A report, and what a reader must know about how it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The report.
    pub report: Report,
    /// What may be missing in it, in sentences without a full stop.
    pub warnings: Vec<String>,
}

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
    /// The text is JSON of something else.
    #[error("it is JSON but not a vmbell report: it has no 'schema_version'")]
    Foreign,
    /// A field is missing or has another type.
    #[error("{path} cannot be read")]
    Field {
        /// The field.
        path: String,
        /// What is wrong, with the line.
        #[source]
        source: serde_json::Error,
    },
    /// A number that no measurement gives, and that cannot be calculated with.
    #[error("{path} is {number:e}, which no measurement gives")]
    Number {
        /// The field.
        path: String,
        /// The number.
        number: f64,
    },
    /// The report is of a later version, in which a field is missing or has another type.
    #[error("schema version {found} is newer than {SCHEMA_VERSION}, and {path} cannot be read")]
    Newer {
        /// The `schema_version` of the text.
        found: u64,
        /// The field.
        path: String,
        /// What is wrong, with the line.
        #[source]
        source: serde_json::Error,
    },
}

/// Reads a report of this version or an earlier one, or as much as this version knows of a later one.
pub fn parse_any(text: &str) -> Result<Reading, ReadError> {
    let text = without_bom(text);
    if text.trim().is_empty() {
        return Err(ReadError::Empty);
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let written = serde_path_to_error::deserialize(&mut deserializer);
    let written: Written = written.map_err(|error| failure(text, error))?;
    deserializer.end().map_err(|source| {
        let path = "its end".to_owned();
        ReadError::Syntax { path, source }
    })?;
    if let Some((path, number)) = serde_json::from_str(text).ok().and_then(too_large) {
        let path = format!("its field '{}'", path.trim_start_matches('.'));
        return Err(ReadError::Number { path, number });
    }
    let warnings = match written.schema_version {
        found if found <= u64::from(SCHEMA_VERSION) => Vec::new(),
        found => vec![format!(
            "schema version {found} is newer than {SCHEMA_VERSION}: unknown fields were ignored"
        )],
    };
    let report = written.into();
    Ok(Reading { report, warnings })
}

/// What the error of a field says about the whole text.
fn failure(text: &str, error: serde_path_to_error::Error<serde_json::Error>) -> ReadError {
    let path = match error.path().to_string() {
        path if path == "." => "its outermost object".to_owned(),
        path => format!("its field '{path}'"),
    };
    let source = error.into_inner();
    let object: Map<String, Value> = match serde_json::from_str(text) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return ReadError::Foreign,
        Err(_) => return ReadError::Syntax { path, source },
    };
    match object.get("schema_version").and_then(Value::as_u64) {
        Some(_) if object.get("kind").is_some_and(|kind| kind == "comparison") => {
            ReadError::Comparison
        }
        None if !object.contains_key("schema_version") && is_of_hyperfine(&object) => {
            ReadError::Hyperfine
        }
        None if object.contains_key("schema_version") => ReadError::Field { path, source },
        None => ReadError::Foreign,
        Some(found) if found > u64::from(SCHEMA_VERSION) => ReadError::Newer {
            found,
            path,
            source,
        },
        Some(_) => ReadError::Field { path, source },
    }
}

/// The first number that is too large, with the path of its field.
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

/// Whether all results have what hyperfine writes.
fn is_of_hyperfine(object: &Map<String, Value>) -> bool {
    let has = |result: &Value| {
        ["command", "times"]
            .iter()
            .all(|field| result.get(field).is_some())
    };
    let results = object.get("results").and_then(Value::as_array);
    results.is_some_and(|results| !results.is_empty() && results.iter().all(has))
}

#[cfg(test)]
#[path = "reading_test.rs"]
mod tests;
