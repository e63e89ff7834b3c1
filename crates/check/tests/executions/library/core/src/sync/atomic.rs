//! Code in a file with the path of core's atomics. Its functions are not inlined, as at opt-level 0.
#![allow(unsafe_code)]

use std::hint::black_box;

unsafe extern "C" {
    fn __tsan_atomic_thread_fence(order: i32);
}

#[inline(never)]
pub fn fence(order: i32) {
    // SAFETY: it has no requirements.
    unsafe { __tsan_atomic_thread_fence(order) };
    black_box(());
}
