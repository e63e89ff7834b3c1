//! Finds the image's document in a VMM's output.
//!
//! The VMM prints the serial port's bytes, with its own text before, between and after, and none of it can be trusted.
//! The output is searched for the image's marks, and the text between them is parsed and checked by `document`.

use super::document::{self, BootDocument, DocumentError};
use crate::output::text::cleaned;
use crate::process::find;

const START: &str = "=== vmbell-probe start ===";
const BEGIN: &str = "=== vmbell-probe begin ";
const END: &str = "=== vmbell-probe end ===";
const EXCEPTION: &str = "=== vmbell-probe exception ";
const PANICKED: &str = "=== vmbell-probe panicked ";
const CLOSE: &str = " ===";
const ROW: &str = "row ";

/// The version of the protocol.
const VERSION: &str = "1";

/// Why a VMM's output has no results.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SerialError {
    /// The output has nothing from the image.
    #[error("it printed nothing from the image")]
    Nothing,
    /// The image started but printed no results.
    #[error("the image started but printed no results{}", in_row(.row.as_deref()))]
    NoResults {
        /// The row that the image was in.
        row: Option<String>,
    },
    /// The image failed.
    #[error("the image failed: {saying}{}", in_row(.row.as_deref()))]
    Failed {
        /// The image's message.
        saying: String,
        /// The row that the image was in.
        row: Option<String>,
    },
    /// The results have another version.
    #[error("the results have version {found}, but this command reads version {VERSION}")]
    Version {
        /// The version.
        found: String,
    },
    /// The results are incomplete.
    #[error("the image's results are incomplete")]
    Cut,
    /// The results are invalid.
    #[error("the image's results cannot be used: {0}")]
    Document(#[from] DocumentError),
}

/// ` in the row NAME`, if there is a name.
fn in_row(row: Option<&str>) -> String {
    row.map_or_else(String::new, |row| format!(" (it was in the row {row})"))
}

/// Whether the image's output is complete, so that waiting longer is useless.
pub(super) fn is_complete(output: &[u8]) -> bool {
    let marks = [END, EXCEPTION, PANICKED];
    marks.into_iter().any(|mark| find(output, mark).is_some())
}

/// The document in `output`.
pub(super) fn read(output: &[u8]) -> Result<BootDocument, SerialError> {
    let text = String::from_utf8_lossy(output);
    let Some((_, rest)) = text.split_once(BEGIN) else {
        return Err(without_document(&text));
    };
    let (version, rest) = rest.split_once(CLOSE).ok_or(SerialError::Cut)?;
    if version != VERSION {
        return Err(SerialError::Version {
            found: cleaned(version),
        });
    }
    let (between, _) = rest.split_once(END).ok_or(SerialError::Cut)?;
    let mut lines = between.lines().map(str::trim);
    let line = lines.find(|line| line.starts_with('{'));
    Ok(document::parse(line.ok_or(SerialError::Cut)?)?)
}

/// Why there is no document.
fn without_document(text: &str) -> SerialError {
    let row = || {
        let mut names = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix(ROW));
        names.next_back().map(cleaned)
    };
    for mark in [EXCEPTION, PANICKED] {
        if let Some(at) = text.find(mark) {
            let saying = text[at..].trim_start_matches("=== vmbell-probe ");
            let saying = saying.split(CLOSE).next().unwrap_or_default();
            return SerialError::Failed {
                saying: cleaned(saying),
                row: row(),
            };
        }
    }
    if text.contains(START) {
        return SerialError::NoResults { row: row() };
    }
    SerialError::Nothing
}

#[cfg(test)]
#[path = "serial_test.rs"]
mod tests;
