//! The records that the checker leaves in a test program (`session.rs` of the library).

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::error::Error;

/// The version of the records that this program reads.
const VERSION: u64 = 2;

/// The record of one scenario.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) test: String,
    pub(super) models: Vec<String>,
    /// The report of the scenario, if it was not weakened.
    pub(super) refused: Option<String>,
    pub(super) sites: Vec<Value>,
    pub(super) mutants: Vec<Value>,
    pub(super) is_minimal: bool,
    pub(super) explorations: u64,
    pub(super) executions: u64,
}

/// Reads the records of a folder, in the order of their tests.
pub(super) fn read(folder: &Path) -> Result<Vec<Record>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::file("read", folder))? {
        let path = entry.map_err(Error::file("read", folder))?.path();
        let text = fs::read(&path).map_err(Error::file("read", &path))?;
        let value: Value = serde_json::from_slice(&text)
            .map_err(|error| Error::file("parse", &path)(error.into()))?;
        let number = value["number"].as_u64();
        let program = value["program"].as_str().unwrap_or_default().to_string();
        found.push(((program, text_of(&value["test"]), number), value));
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found
        .into_iter()
        .map(|(_, value)| Record::new(&value))
        .collect()
}

impl Record {
    /// Reads a record of the version that this program knows, and refuses others.
    pub(super) fn new(value: &Value) -> Result<Record, Error> {
        if value["version"] != VERSION {
            return Err(Error::RecordVersion {
                version: value["version"].to_string(),
                known: VERSION,
            });
        }
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let unchanged = list(&value["unchanged"]);
        let models = unchanged.iter().map(|one| text_of(&one["model"]));
        Ok(Record {
            test: format!("{} {}", text_of(&value["program"]), text_of(&value["test"])),
            models: models.collect(),
            refused: value["refused"].as_str().map(str::to_string),
            sites: list(&value["sites"]),
            mutants: list(&value["mutants"]),
            is_minimal: value["minimal"].as_bool().unwrap_or(true),
            explorations: value["explorations"].as_u64().unwrap_or(0),
            executions: value["executions"].as_u64().unwrap_or(0),
        })
    }
}

pub(super) fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

#[cfg(test)]
#[path = "record_test.rs"]
mod tests;
