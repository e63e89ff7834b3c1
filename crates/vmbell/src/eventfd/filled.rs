//! What tests of full eventfds share.

use std::time::Duration;

/// The largest count that a write makes.
pub const FULL: u64 = u64::MAX - 1;

/// Longer than any host takes for what does not hang.
pub const LIMIT: Duration = Duration::from_secs(60);
