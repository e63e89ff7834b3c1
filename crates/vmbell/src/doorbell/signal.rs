//! Signals an eventfd by its descriptor number, on the thread that rings.

#![allow(unsafe_code)]

/// Adds 1 to the counter of an eventfd; the caller knows that the descriptor is open.
///
/// At the counter's limit the write has no effect if the eventfd is non-blocking, and blocks the caller if it
/// is not: unlike the kernel, a process cannot signal past the limit.
#[expect(clippy::cast_possible_wrap, reason = "descriptors are below 2^29")]
pub(super) fn ring(fd: u32) {
    let one = 1_u64.to_ne_bytes();
    // SAFETY: `one` is eight bytes on this stack, alive until the call returns; the descriptor is
    // a clone that the `DoorbellSet` closes only after this reader's section. The result is
    // ignored: it is EAGAIN at the limit, where the consumer has a signal to take anyway.
    unsafe { libc::write(fd as i32, one.as_ptr().cast(), one.len()) };
}
