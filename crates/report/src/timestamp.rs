//! The time of day in UTC, as in RFC 3339, in whole seconds.

use std::time::{SystemTime, UNIX_EPOCH};

/// Formats `time` as `2026-11-21T09:30:00Z`; a time before 1970 becomes 1970-01-01.
pub fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time.max(UNIX_EPOCH)).to_string()
}

/// The seconds since 1970 of such a text; `None` if the text has a different form.
pub(super) fn unix_seconds(text: &str) -> Option<u64> {
    let time = humantime::parse_rfc3339(text).ok()?;
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
#[path = "timestamp_test.rs"]
mod tests;
