//! The image's results: one line of JSON, which is not trusted because a VMM could have written it.
//!
//! All sizes are limited and names are checked, because they go into tables, CSV and files.

use serde::Deserialize;

use crate::output::text::cleaned;
use vmbell_report::{VmmDevice, VmmGuest};

/// How many rows, samples of a row and devices are read at most.
const ROWS: usize = 256;
const SAMPLES: usize = 4096;
const DEVICES: usize = 64;
/// The maximum length of a row's name.
const NAME: usize = 48;

/// Why a document is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DocumentError {
    /// The document is not JSON, or a field is missing or has the wrong type.
    #[error("{0}")]
    Json(String),
    /// An invalid name of a row.
    #[error("'{0}' is not a row's name")]
    Name(String),
    /// Two rows have this name.
    #[error("there are two rows {0}")]
    Twice(String),
    /// A row with neither samples nor a reason, or with no operations.
    #[error("the row {0} has neither numbers nor a reason")]
    Empty(String),
    /// There is more of something than any image has.
    #[error("there are {found} {what}, more than {most}")]
    TooMany {
        /// The name of what exceeds the limit.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// The limit.
        most: usize,
    },
}

/// The results of one boot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BootDocument {
    /// The machine as the image found it.
    pub(super) guest: VmmGuest,
    /// The image's rows, in the order in which it printed them.
    pub(super) rows: Vec<DocumentRow>,
}

/// A row of one boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DocumentRow {
    /// The name: lower-case letters, digits and hyphens.
    pub(super) name: String,
    /// The number that the image writes to port 0x80 before and after each batch if its command line has `mark`.
    pub(super) mark: Option<u8>,
    /// The numbers, or why there are none.
    pub(super) result: Result<BatchTicks, String>,
}

/// The numbers of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BatchTicks {
    /// Operations of each batch; at least one.
    pub(super) operations: u64,
    /// The ticks of each batch; at least one.
    pub(super) ticks: Vec<u64>,
}

#[derive(Deserialize)]
struct JsonDocument {
    boot: String,
    cpu: JsonCpu,
    hypervisor: Option<String>,
    apic: String,
    cpus: u32,
    tsc_hz: Option<u64>,
    tsc_source: Option<String>,
    #[serde(default)]
    devices: Vec<VmmDevice>,
    rows: Vec<JsonRow>,
    #[serde(default)]
    end: String,
}

#[derive(Deserialize)]
struct JsonCpu {
    vendor: String,
    brand: String,
}

#[derive(Deserialize)]
struct JsonRow {
    name: String,
    mark: Option<u8>,
    operations: Option<u64>,
    #[serde(default)]
    samples: Vec<u64>,
    reason: Option<String>,
}

/// Parses and checks one line.
pub(super) fn parse(line: &str) -> Result<BootDocument, DocumentError> {
    let written: JsonDocument = serde_json::from_str(line)
        .map_err(|error| DocumentError::Json(cleaned(&error.to_string())))?;
    at_most("devices", written.devices.len(), DEVICES)?;
    at_most("rows", written.rows.len(), ROWS)?;
    let mut rows: Vec<DocumentRow> = Vec::new();
    for row in written.rows {
        let row = checked(row)?;
        if rows.iter().any(|other| other.name == row.name) {
            return Err(DocumentError::Twice(row.name));
        }
        rows.push(row);
    }
    let guest = VmmGuest {
        boot: cleaned(&written.boot),
        cpu_vendor: cleaned(&written.cpu.vendor),
        cpu: cleaned(&written.cpu.brand),
        hypervisor: written.hypervisor.as_deref().map(cleaned),
        apic: cleaned(&written.apic),
        cpus: written.cpus,
        tsc_hz: written.tsc_hz.filter(|hz| *hz > 0).map(frequency),
        tsc_source: written.tsc_source.as_deref().map(cleaned),
        devices: written.devices.into_iter().map(device).collect(),
        end: cleaned(&written.end),
    };
    Ok(BootDocument { guest, rows })
}

#[allow(clippy::cast_precision_loss, reason = "a frequency in Hz")]
fn frequency(hz: u64) -> f64 {
    hz as f64
}

fn device(device: VmmDevice) -> VmmDevice {
    VmmDevice {
        kind: cleaned(&device.kind),
        transport: cleaned(&device.transport),
        found_by: cleaned(&device.found_by),
        interrupt: device.interrupt.as_deref().map(cleaned),
        gsi: device.gsi,
    }
}

fn checked(row: JsonRow) -> Result<DocumentRow, DocumentError> {
    let JsonRow { name, mark, .. } = row;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > NAME || !name.chars().all(is_plain) {
        return Err(DocumentError::Name(cleaned(&name)));
    }
    at_most("samples", row.samples.len(), SAMPLES)?;
    let result = match (
        row.reason,
        row.operations.filter(|operations| *operations > 0),
    ) {
        (Some(reason), _) => Err(cleaned(&reason)),
        (None, Some(operations)) if !row.samples.is_empty() => Ok(BatchTicks {
            operations,
            ticks: row.samples,
        }),
        (None, _) => return Err(DocumentError::Empty(name)),
    };
    Ok(DocumentRow { name, mark, result })
}

const fn at_most(what: &'static str, found: usize, most: usize) -> Result<(), DocumentError> {
    if found > most {
        return Err(DocumentError::TooMany { what, found, most });
    }
    Ok(())
}

#[cfg(test)]
#[path = "document_test.rs"]
mod tests;
