//! The functions that instrumented code calls, without a checker: they perform atomic operations and ignore the rest.
//!
//! `cargo vmbell-check` compiles this file by itself. The names and arguments are those of LLVM's ThreadSanitizer
//! instrumentation and of gcc's. All orderings are sequentially consistent, which is at least as strong as requested.
//!
//! The instrumentation passes the pointers of the operation that it replaces. The caller owns what they point to and
//! keeps it valid for the operation; the code without hooks needs this as well.

#![no_std]
#![allow(clippy::missing_safety_doc, missing_docs, unsafe_code)]

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::SeqCst, fence};

macro_rules! ignored {
    ($($name:ident($($arg:ident),*))*) => {
        $(#[unsafe(no_mangle)] pub extern "C" fn $name($($arg: usize),*) { $(let _ = $arg;)* })*
    };
}

ignored! {
    __tsan_init() __tsan_func_entry(pc) __tsan_func_exit()
    __tsan_ignore_thread_begin() __tsan_ignore_thread_end()
    __tsan_vptr_update(address, value) __tsan_vptr_read(address)
    __tsan_read_range(address, length) __tsan_write_range(address, length)
    __tsan_read1(address) __tsan_read2(address) __tsan_read4(address) __tsan_read8(address) __tsan_read16(address)
    __tsan_write1(address) __tsan_write2(address) __tsan_write4(address) __tsan_write8(address)
    __tsan_write16(address)
    __tsan_unaligned_read1(address) __tsan_unaligned_read2(address) __tsan_unaligned_read4(address)
    __tsan_unaligned_read8(address) __tsan_unaligned_read16(address)
    __tsan_unaligned_write1(address) __tsan_unaligned_write2(address) __tsan_unaligned_write4(address)
    __tsan_unaligned_write8(address) __tsan_unaligned_write16(address)
    __tsan_read_write1(address) __tsan_read_write2(address) __tsan_read_write4(address)
    __tsan_read_write8(address) __tsan_read_write16(address)
    __tsan_unaligned_read_write1(address) __tsan_unaligned_read_write2(address)
    __tsan_unaligned_read_write4(address) __tsan_unaligned_read_write8(address)
    __tsan_unaligned_read_write16(address)
    __tsan_volatile_read1(address) __tsan_volatile_read2(address) __tsan_volatile_read4(address)
    __tsan_volatile_read8(address) __tsan_volatile_read16(address)
    __tsan_volatile_write1(address) __tsan_volatile_write2(address) __tsan_volatile_write4(address)
    __tsan_volatile_write8(address) __tsan_volatile_write16(address)
    __tsan_unaligned_volatile_read1(address) __tsan_unaligned_volatile_read2(address)
    __tsan_unaligned_volatile_read4(address) __tsan_unaligned_volatile_read8(address)
    __tsan_unaligned_volatile_read16(address)
    __tsan_unaligned_volatile_write1(address) __tsan_unaligned_volatile_write2(address)
    __tsan_unaligned_volatile_write4(address) __tsan_unaligned_volatile_write8(address)
    __tsan_unaligned_volatile_write16(address)
    __tsan_atomic_signal_fence(order)
}

#[unsafe(no_mangle)]
pub extern "C" fn __tsan_atomic_thread_fence(_order: i32) {
    fence(SeqCst);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    // SAFETY: both ranges are those of the caller's own copy or fill, valid for this call.
    unsafe { core::ptr::copy_nonoverlapping(from, to, length) };
    to
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_memmove(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    // SAFETY: both ranges are those of the caller's own copy or fill, valid for this call.
    unsafe { core::ptr::copy(from, to, length) };
    to
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __tsan_memset(to: *mut u8, byte: i32, length: usize) -> *mut u8 {
    // SAFETY: both ranges are those of the caller's own copy or fill, valid for this call.
    unsafe { core::ptr::write_bytes(to, byte as u8, length) };
    to
}

macro_rules! atomics {
    ($value:ty, $atomic:ty: $load:ident $store:ident $strong:ident $weak:ident $val:ident
     $($fetch:ident $method:ident)*) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $load(at: *const $atomic, _order: i32) -> $value {
            // SAFETY: `at` is the caller's atomic object, aligned and valid for this call.
            unsafe { &*at }.load(SeqCst)
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $store(at: *const $atomic, value: $value, _order: i32) {
            // SAFETY: `at` is the caller's atomic object, aligned and valid for this call.
            unsafe { &*at }.store(value, SeqCst);
        }

        $(#[unsafe(no_mangle)]
        pub unsafe extern "C" fn $fetch(at: *const $atomic, value: $value, _order: i32) -> $value {
            // SAFETY: `at` is the caller's atomic object, aligned and valid for this call.
            unsafe { &*at }.$method(value, SeqCst)
        })*

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $val(
            at: *const $atomic, expected: $value, value: $value, _order: i32, _failure: i32,
        ) -> $value {
            // SAFETY: `at` is the caller's atomic object, aligned and valid for this call.
            match unsafe { &*at }.compare_exchange(expected, value, SeqCst, SeqCst) {
                Ok(old) | Err(old) => old,
            }
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $strong(
            at: *const $atomic, expected: *mut $value, value: $value, order: i32, failure: i32,
        ) -> bool {
            // SAFETY: `expected` is a variable of the caller, valid for this call and not shared.
            let before = unsafe { *expected };
            // SAFETY: the caller's pointer is passed on unchanged.
            let old = unsafe { $val(at, before, value, order, failure) };
            // SAFETY: as above.
            unsafe { *expected = old };
            old == before
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $weak(
            at: *const $atomic, expected: *mut $value, value: $value, order: i32, failure: i32,
        ) -> bool {
            // SAFETY: the caller's pointers are passed on unchanged.
            unsafe { $strong(at, expected, value, order, failure) }
        }
    };
}

atomics! {
    u8, AtomicU8: __tsan_atomic8_load __tsan_atomic8_store
    __tsan_atomic8_compare_exchange_strong __tsan_atomic8_compare_exchange_weak
    __tsan_atomic8_compare_exchange_val
    __tsan_atomic8_exchange swap
    __tsan_atomic8_fetch_add fetch_add __tsan_atomic8_fetch_sub fetch_sub
    __tsan_atomic8_fetch_and fetch_and __tsan_atomic8_fetch_or fetch_or
    __tsan_atomic8_fetch_xor fetch_xor __tsan_atomic8_fetch_nand fetch_nand
}

atomics! {
    u16, AtomicU16: __tsan_atomic16_load __tsan_atomic16_store
    __tsan_atomic16_compare_exchange_strong __tsan_atomic16_compare_exchange_weak
    __tsan_atomic16_compare_exchange_val
    __tsan_atomic16_exchange swap
    __tsan_atomic16_fetch_add fetch_add __tsan_atomic16_fetch_sub fetch_sub
    __tsan_atomic16_fetch_and fetch_and __tsan_atomic16_fetch_or fetch_or
    __tsan_atomic16_fetch_xor fetch_xor __tsan_atomic16_fetch_nand fetch_nand
}

atomics! {
    u32, AtomicU32: __tsan_atomic32_load __tsan_atomic32_store
    __tsan_atomic32_compare_exchange_strong __tsan_atomic32_compare_exchange_weak
    __tsan_atomic32_compare_exchange_val
    __tsan_atomic32_exchange swap
    __tsan_atomic32_fetch_add fetch_add __tsan_atomic32_fetch_sub fetch_sub
    __tsan_atomic32_fetch_and fetch_and __tsan_atomic32_fetch_or fetch_or
    __tsan_atomic32_fetch_xor fetch_xor __tsan_atomic32_fetch_nand fetch_nand
}

atomics! {
    u64, AtomicU64: __tsan_atomic64_load __tsan_atomic64_store
    __tsan_atomic64_compare_exchange_strong __tsan_atomic64_compare_exchange_weak
    __tsan_atomic64_compare_exchange_val
    __tsan_atomic64_exchange swap
    __tsan_atomic64_fetch_add fetch_add __tsan_atomic64_fetch_sub fetch_sub
    __tsan_atomic64_fetch_and fetch_and __tsan_atomic64_fetch_or fetch_or
    __tsan_atomic64_fetch_xor fetch_xor __tsan_atomic64_fetch_nand fetch_nand
}
