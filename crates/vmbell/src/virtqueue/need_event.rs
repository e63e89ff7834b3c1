//! Whether a step of an index crosses the event that the other side asked for.
//!
//! Pure arithmetic: virtio 1.3, 2.7.10 (split) and 2.8.21 (packed).

/// Whether one of the entries `old..new` is entry `event`, on a split ring's 16-bit indices.
///
/// `new - old` is at most 65535; whoever may have stepped further notifies unasked.
pub const fn need_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
#[path = "need_event_test.rs"]
mod tests;
