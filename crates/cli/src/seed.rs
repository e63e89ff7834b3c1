//! Makes a seed for a command that was given none.

use std::time::SystemTime;

/// A seed from the nanoseconds of the current second and the number of this process.
pub(super) fn fresh() -> u32 {
    let nanos = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.subsec_nanos());
    nanos ^ std::process::id().rotate_left(16)
}
