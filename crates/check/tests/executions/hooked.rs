//! A word of the shared memory whose accesses reach the checker like those of instrumented code.
#![allow(unsafe_code)]

use std::hint::black_box;

use vmbell_check::Memory;

pub const RELAXED: i32 = 0;
pub const ACQUIRE: i32 = 2;
pub const RELEASE: i32 = 3;
pub const ACQ_REL: i32 = 4;
pub const SEQ_CST: i32 = 5;

unsafe extern "C" {
    fn __tsan_atomic64_load(address: *const u64, order: i32) -> u64;
    pub fn __tsan_atomic64_store(address: *mut u64, value: u64, order: i32);
    fn __tsan_atomic64_fetch_add(address: *mut u64, value: u64, order: i32) -> u64;
    fn __tsan_atomic64_compare_exchange_val(
        address: *mut u64,
        expected: u64,
        value: u64,
        success: i32,
        failure: i32,
    ) -> u64;
    fn __tsan_atomic_thread_fence(order: i32);
}

/// A word in the shared memory, which is mapped while tasks run.
#[derive(Clone, Copy)]
pub struct Word(*mut u64);

impl Word {
    pub fn new(memory: Memory, at: usize) -> Word {
        assert!(at + 8 <= memory.len());
        Word(memory.pointer().as_ptr().wrapping_add(at).cast())
    }

    pub fn pointer(self) -> *mut u64 {
        self.0
    }

    #[inline(always)]
    pub fn load(self, order: i32) -> u64 {
        // SAFETY: the word is mapped.
        let value = unsafe { __tsan_atomic64_load(self.0, order) };
        keep_call();
        value
    }

    #[inline(always)]
    pub fn store(self, value: u64, order: i32) {
        // SAFETY: the word is mapped.
        unsafe { __tsan_atomic64_store(self.0, value, order) };
        keep_call();
    }

    #[inline(always)]
    pub fn add(self, value: u64, order: i32) -> u64 {
        // SAFETY: the word is mapped.
        let old = unsafe { __tsan_atomic64_fetch_add(self.0, value, order) };
        keep_call();
        old
    }

    /// Returns whether the word had the expected value.
    #[inline(always)]
    pub fn compare_exchange(self, expected: u64, new: u64, [success, failure]: [i32; 2]) -> bool {
        // SAFETY: the word is mapped.
        let old = unsafe {
            __tsan_atomic64_compare_exchange_val(self.0, expected, new, success, failure)
        };
        old == expected
    }
}

#[inline(always)]
pub fn fence(order: i32) {
    // SAFETY: it has no requirements.
    unsafe { __tsan_atomic_thread_fence(order) };
    keep_call();
}

/// Keeps the call before this one from becoming a tail call (a jump), because a jump leaves no return address.
/// Instrumented functions end with a call.
#[inline(always)]
fn keep_call() {
    black_box(());
}
