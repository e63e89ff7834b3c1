//! One run of netperf: its arguments, and its output, which is checked.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::Path;

use super::pattern::{NetperfPattern, SEGMENT, StreamDirection};

/// The unit of a stream's throughput.
const MEGABITS: &str = "10^6bits/s";
/// The requested output values.
const KEYS: &str =
    "TRANSACTION_RATE,THROUGHPUT,THROUGHPUT_UNITS,LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD";

/// Why netperf's output is not a result.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NetperfError {
    /// netperf printed no line with this key.
    #[error("netperf printed no {0}")]
    Missing(&'static str),
    /// A value is not a number above zero.
    #[error("netperf printed {key}={value}, which is not a number above zero")]
    Number {
        /// The key.
        key: &'static str,
        /// The value's text, cleaned.
        value: String,
    },
    /// The throughput has another unit.
    #[error("netperf printed its throughput in {0} instead of {MEGABITS}")]
    Unit(String),
}

/// The work of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct NetperfAmount {
    /// Round trips.
    pub(super) transactions: u32,
    /// Bytes of a stream.
    pub(super) bytes: u64,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NetperfResult {
    /// The number of operations: round trips, or segments of a stream.
    pub(super) operations: f64,
    /// Nanoseconds per operation.
    pub(super) ns: f64,
}

/// netperf's command line.
pub(super) fn words(
    program: &Path,
    pattern: NetperfPattern,
    guest: Ipv4Addr,
    amount: NetperfAmount,
) -> Vec<OsString> {
    let (test, own) = pattern.words();
    // A negative length is an amount, and a positive length is a time.
    let length = match pattern.direction() {
        None => format!("-{}", amount.transactions),
        Some(_) => format!("-{}", amount.bytes),
    };
    let guest = guest.to_string();
    let mut words: Vec<OsString> = vec![program.into()];
    words.extend(
        [
            "-4", "-H", &guest, "-P", "0", "-t", test, "-l", &length, "--",
        ]
        .map(Into::into),
    );
    words.extend(own);
    words.extend(["-k", KEYS].map(Into::into));
    words
}

/// Parses the output of a run.
pub(super) fn read(
    output: &[u8],
    pattern: NetperfPattern,
    amount: NetperfAmount,
) -> Result<NetperfResult, NetperfError> {
    let text = String::from_utf8_lossy(output);
    // An incomplete line may have an incomplete number.
    let values: BTreeMap<&str, &str> = text
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n'))
        .filter_map(|line| line.trim().split_once('='))
        .collect();
    let value = |key| values.get(key).copied().ok_or(NetperfError::Missing(key));
    let number = |key| {
        let text = value(key)?;
        let number = text.parse().ok();
        number
            .filter(|number: &f64| number.is_finite() && *number > 0.0)
            .ok_or_else(|| NetperfError::Number {
                key,
                value: crate::output::text::cleaned(text),
            })
    };
    match pattern.direction() {
        None => Ok(NetperfResult {
            operations: f64::from(amount.transactions),
            ns: 1e9 / number("TRANSACTION_RATE")?,
        }),
        Some(direction) => {
            let unit = value("THROUGHPUT_UNITS")?;
            if unit != MEGABITS {
                return Err(NetperfError::Unit(crate::output::text::cleaned(unit)));
            }
            let bytes = number(match direction {
                StreamDirection::In => "LOCAL_BYTES_SENT",
                StreamDirection::Out => "LOCAL_BYTES_RECVD",
            })?;
            let segment = f64::from(SEGMENT);
            Ok(NetperfResult {
                operations: bytes / segment,
                ns: segment * 8.0 * 1e3 / number("THROUGHPUT")?,
            })
        }
    }
}

#[cfg(test)]
#[path = "netperf_test.rs"]
mod tests;
