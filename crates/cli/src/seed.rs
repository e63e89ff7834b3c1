//! A seed for a command that was given none.

use std::time::SystemTime;

/// Not the time itself, whose high bits never change: its fast half, and whose process it is.
pub(super) fn fresh() -> u32 {
    let nanos = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.subsec_nanos());
    nanos ^ std::process::id().rotate_left(16)
}
