//! What `vmbell top --record` writes: a line that names the format and the host, and a line of JSON for each table.
//!
//! A recorder may be killed, so the last line may be cut off. Counts are cumulative; a counter that is lower than
//! before has started again.

use serde::{Deserialize, Serialize};

use super::text::without_bom;
use super::{Host, TopLine};

/// The name of the format.
const FORMAT: &str = "vmbell-top";

/// The first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordingHeader {
    format: String,
    version: u64,
    /// When the recording began, as RFC 3339.
    pub started: String,
    /// The version of vmbell.
    pub vmbell: String,
    /// The host of the VMs.
    pub host: Host,
}

/// A recording.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Where and when the recording was made.
    pub header: RecordingHeader,
    pub(crate) lines: Vec<TopLine>,
    /// What the recording may lack, in sentences without a full stop.
    pub warnings: Vec<String>,
}

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The first line cannot be read.
    #[error("the first line cannot be read")]
    Header(#[source] serde_json::Error),
    /// A line cannot be read.
    #[error("line {number} cannot be read")]
    Line {
        /// The line's number, from 1.
        number: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The recording has a different version.
    #[error(
        "its version is {found}, and this vmbell reads {}: show it with the vmbell that recorded it",
        TopLine::VERSION
    )]
    Version {
        /// The version.
        found: u64,
    },
    /// There are fewer than two lines of counts.
    #[error("it has no interval: the recorder ended before its first table")]
    Short,
}

impl RecordingHeader {
    /// The first line of a recording that starts now.
    pub fn new(started: String, vmbell: String, host: Host) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: TopLine::VERSION,
            started,
            vmbell,
            host,
        }
    }
}

impl Recording {
    /// Whether a text is a recording, not a report.
    pub fn is_one(text: &str) -> bool {
        #[derive(Deserialize)]
        struct Named {
            format: String,
        }
        let first = without_bom(text).lines().next().unwrap_or_default();
        serde_json::from_str::<Named>(first).is_ok_and(|named| named.format == FORMAT)
    }

    /// Reads a recording. A last line that is cut off is left out with a warning.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let text = without_bom(text);
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let header: RecordingHeader =
            serde_json::from_str(first).map_err(RecordingError::Header)?;
        let mut warnings = Vec::new();
        let of_version = |found| match found {
            TopLine::VERSION => Ok(()),
            found => Err(RecordingError::Version { found }),
        };
        of_version(header.version)?;
        let (whole, cut) = rest.rsplit_once('\n').unwrap_or(("", rest));
        let mut lines = Vec::new();
        for (text, number) in whole.lines().zip(2..) {
            let line = serde_json::from_str(text);
            let line: TopLine = line.map_err(|source| RecordingError::Line { number, source })?;
            of_version(line.schema_version)?;
            lines.push(line);
        }
        if !cut.is_empty() {
            warnings.push("the last line is cut off: the recorder was killed".to_owned());
        }
        if lines.len() < 2 {
            return Err(RecordingError::Short);
        }
        Ok(Self {
            header,
            lines,
            warnings,
        })
    }
}

#[cfg(test)]
#[path = "recording_test.rs"]
pub(crate) mod tests;
