//! Checks that the parts of a ring have no byte in common.
//!
//! Each part consists of atomics of its own width, and the driver, which may be a hostile guest, chooses
//! the addresses. Rust's memory model does not define atomics of two widths on one byte.

use super::SetupError;

/// A part of a ring: its name, its address and its length in bytes.
pub(super) type Part = (&'static str, u64, u64);

/// [`SetupError::Overlap`] if two of the parts overlap.
pub(super) fn check(parts: [Part; 3]) -> Result<(), SetupError> {
    let [one, two, three] = parts;
    for ((part, addr, len), (other, start, size)) in [(one, two), (one, three), (two, three)] {
        if addr < start.saturating_add(size) && start < addr.saturating_add(len) {
            return Err(SetupError::Overlap { part, addr, other });
        }
    }
    Ok(())
}
