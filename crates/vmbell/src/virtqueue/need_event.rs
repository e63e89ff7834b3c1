//! Whether an index has passed the event index for which the other side asked a notification.
//!
//! It is pure arithmetic: virtio 1.3, 2.7.10 (split) and 2.8.21 (packed).

/// Whether entry `event` is among the entries `old..new`, on a split ring's 16-bit indices.
///
/// `new - old` is at most 65535; a side whose index may have moved further notifies without asking this.
pub const fn need_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
#[path = "need_event_test.rs"]
mod tests;
