//! Ringing an eventfd by number.

#![allow(unsafe_code)]

/// Adds one to the counter of an eventfd that the caller knows is open.
///
/// A counter at its limit stays there if the eventfd is non-blocking, and blocks the caller if it
/// is not: unlike the kernel, a process cannot signal past the limit.
#[expect(clippy::cast_possible_wrap, reason = "descriptors are below 2^29")]
pub(super) fn ring(fd: u32) {
    let one = 1_u64.to_ne_bytes();
    // SAFETY: `one` is eight bytes on this stack, alive until the call returns; the descriptor is
    // a clone that the `DoorbellSet` closes only after this reader's section. The result says
    // EAGAIN at the limit, where the consumer has news to look at anyway.
    unsafe { libc::write(fd as i32, one.as_ptr().cast(), one.len()) };
}
