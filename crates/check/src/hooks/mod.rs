//! ThreadSanitizer's interface, which the compiler calls before each access of instrumented code, as steps of the search.
//!
//! The functions are those of LLVM's `compiler-rt/lib/tsan/rtl/tsan_interface.h` and `tsan_interface_atomic.h`. Each is
//! a few instructions that pass the return address to the function that does the work. Traces name the access by this
//! address. Accesses outside the shared memory, and by threads that run no task, behave as they would without
//! instrumentation.
#![allow(unsafe_code)]

mod atomics;

use std::arch::naked_asm;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{self, AtomicUsize, Ordering};

use crate::arch::pass_return_address;
use crate::graph::Order;
use crate::guard;
use crate::memory::offset;
use crate::search::{Access, Search, Stop};
use crate::task::{self, Resume};

/// Where another thread accessed the shared memory: the return address and the offset plus 1; 0 if none did.
static OTHER_THREAD: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

thread_local! {
    /// Whether this thread explores.
    static EXPLORES: Cell<bool> = const { Cell::new(false) };
}

/// Notes that this thread starts or stops exploring.
pub(crate) fn set_exploring(explores: bool) {
    EXPLORES.set(explores);
}

/// Returns where another thread accessed the shared memory since the last call.
pub(crate) fn other_thread() -> Option<(usize, u16)> {
    let at = OTHER_THREAD[1].swap(0, Ordering::Relaxed);
    let offset = u16::try_from(at.checked_sub(1)?).ok()?;
    Some((OTHER_THREAD[0].load(Ordering::Relaxed), offset))
}

/// The offset of an address that a task of this thread accesses in the shared memory.
fn shared(address: usize, site: usize) -> Option<u16> {
    let offset = offset(address)?;
    if task::inside() {
        return Some(offset);
    }
    if !EXPLORES.get() {
        OTHER_THREAD[0].store(site, Ordering::Relaxed);
        OTHER_THREAD[1].store(usize::from(offset) + 1, Ordering::Relaxed);
    }
    None
}

/// Takes a step. A hook cannot unwind, so a task stops here permanently when its execution has ended.
fn call<R>(step: impl Fn(&mut Search) -> Result<R, Stop>) -> R {
    loop {
        match task::with(&step) {
            Some(Ok(result)) => return result,
            Some(Err(_)) | None => {
                let mut resume = task::suspend();
                while resume == Resume::End {
                    resume = task::suspend();
                }
            }
        }
    }
}

fn order(order: i32) -> Order {
    match order {
        0 => Order::Relaxed,
        1 | 2 => Order::Acquire,
        3 => Order::Release,
        4 => Order::AcqRel,
        _ => Order::SeqCst,
    }
}

/// Splits a plain access into parts of at most eight bytes.
fn parts(offset: u16, size: u8) -> impl Iterator<Item = (u16, u8)> {
    (0..size.div_ceil(8)).map(move |part| (offset + 8 * u16::from(part), size.min(8)))
}

extern "C" fn plain_read<const SIZE: u8>(address: usize, site: usize) {
    let Some(offset) = shared(address, site) else {
        return;
    };
    for (offset, size) in parts(offset, SIZE) {
        let access = Access::new(offset, size, Order::Relaxed, site);
        let value = call(|search| search.load(access));
        // The load itself comes after this hook, and finds the value in memory.
        task::with(|search| {
            search.mapping.write(
                usize::from(offset),
                &value.to_le_bytes()[..usize::from(size)],
            );
        });
    }
    guard::allow(offset, SIZE.into());
}

extern "C" fn plain_write<const SIZE: u8>(address: usize, site: usize) {
    let Some(offset) = shared(address, site) else {
        return;
    };
    task::with(|search| {
        search.begin_announcement(site);
        for (offset, size) in parts(offset, SIZE) {
            search.announce(Access::new(offset, size, Order::Relaxed, site));
        }
    });
    guard::allow(offset, SIZE.into());
}

extern "C" fn plain_update<const SIZE: u8>(address: usize, site: usize) {
    plain_read::<SIZE>(address, site);
    plain_write::<SIZE>(address, site);
}

/// Splits a range into words: each is one access. The last words can be shorter.
fn words(len: usize) -> impl Iterator<Item = (usize, u8)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let size = [8_u8, 4, 2, 1]
            .into_iter()
            .find(|&size| usize::from(size) <= len - at)?;
        at += usize::from(size);
        Some((at - usize::from(size), size))
    })
}

extern "C" fn read_range(address: usize, len: usize, site: usize) {
    let Some(start) = shared(address, site) else {
        return;
    };
    for (at, size) in words(len) {
        let Some(offset) = shared(address + at, site) else {
            break;
        };
        let access = Access::new(offset, size, Order::Relaxed, site);
        let bytes = call(|search| search.load(access)).to_le_bytes();
        task::with(|search| {
            search
                .mapping
                .write(offset.into(), &bytes[..usize::from(size)]);
        });
    }
    guard::allow(start, len);
}

extern "C" fn write_range(address: usize, len: usize, site: usize) {
    let Some(start) = shared(address, site) else {
        return;
    };
    task::with(|search| {
        search.begin_announcement(site);
        for (at, size) in words(len) {
            if let Some(offset) = offset(address + at) {
                search.announce(Access::new(offset, size, Order::Relaxed, site));
            }
        }
    });
    guard::allow(start, len);
}

extern "C" fn fence(order_of_fence: i32, site: usize) {
    atomic::fence(Ordering::SeqCst);
    if task::inside() {
        let order = order(order_of_fence);
        call(|search| search.fence(order, site));
    }
}

extern "C" fn nothing(_site: usize) {}

/// Copies word by word if either side is in the shared memory: each word is one access.
unsafe extern "C" fn copy(to: *mut u8, from: *const u8, len: usize, site: usize) -> *mut u8 {
    if shared(to.addr(), site).is_none() && shared(from.addr(), site).is_none() {
        // SAFETY: the caller is a `memcpy` or `memmove` of instrumented code, which vouches for both ranges.
        unsafe { ptr::copy(from, to, len) };
        return to;
    }
    for (at, size) in words(len) {
        let mut bytes = [0; 8];
        if let Some(offset) = shared(from.addr() + at, site) {
            let access = Access::new(offset, size, Order::Relaxed, site);
            bytes = call(|search| search.load(access)).to_le_bytes();
        } else {
            let from = from.wrapping_add(at);
            // SAFETY: the word is in the range that the caller vouches for; `bytes` has 8 bytes.
            unsafe { ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), size.into()) };
        }
        // SAFETY: the word is in the range that the caller vouches for.
        unsafe { put(to.wrapping_add(at), size, bytes, site) };
    }
    to
}

unsafe extern "C" fn set(to: *mut u8, byte: i32, len: usize, site: usize) -> *mut u8 {
    let byte = byte.to_le_bytes()[0];
    if shared(to.addr(), site).is_none() {
        // SAFETY: the caller is a `memset` of instrumented code, which vouches for the range.
        unsafe { ptr::write_bytes(to, byte, len) };
        return to;
    }
    for (at, size) in words(len) {
        // SAFETY: the word is in the range that the caller vouches for.
        unsafe { put(to.wrapping_add(at), size, [byte; 8], site) };
    }
    to
}

/// Stores a word of a copy.
unsafe fn put(to: *mut u8, size: u8, bytes: [u8; 8], site: usize) {
    if let Some(offset) = shared(to.addr(), site) {
        let access = Access::new(offset, size, Order::Relaxed, site);
        call(|search| search.store(access, u64::from_le_bytes(bytes)));
    } else {
        // SAFETY: the caller vouches for `size` bytes at `to`, and `bytes` has 8.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, size.into()) };
    }
}

/// Functions that pass their return address as one more argument, after this number of others.
macro_rules! hook {
    ($arguments:tt, $function:path, $($name:ident)+) => { $(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            naked_asm!(pass_return_address!($arguments), sym $function)
        }
    )+ };
}
use hook;

hook!(1, plain_read::<1>, __tsan_read1 __tsan_volatile_read1 __tsan_unaligned_read1);
hook!(1, plain_read::<2>, __tsan_read2 __tsan_volatile_read2 __tsan_unaligned_read2 __tsan_unaligned_volatile_read2);
hook!(1, plain_read::<4>, __tsan_read4 __tsan_volatile_read4 __tsan_unaligned_read4 __tsan_unaligned_volatile_read4);
hook!(1, plain_read::<8>, __tsan_read8 __tsan_volatile_read8 __tsan_unaligned_read8 __tsan_unaligned_volatile_read8);
hook!(1, plain_read::<16>, __tsan_read16 __tsan_volatile_read16 __tsan_unaligned_read16);
hook!(1, plain_write::<1>, __tsan_write1 __tsan_volatile_write1 __tsan_unaligned_write1);
hook!(1, plain_write::<2>, __tsan_write2 __tsan_volatile_write2 __tsan_unaligned_write2 __tsan_unaligned_volatile_write2);
hook!(1, plain_write::<4>, __tsan_write4 __tsan_volatile_write4 __tsan_unaligned_write4 __tsan_unaligned_volatile_write4);
hook!(1, plain_write::<8>, __tsan_write8 __tsan_volatile_write8 __tsan_unaligned_write8 __tsan_unaligned_volatile_write8);
hook!(1, plain_write::<16>, __tsan_write16 __tsan_volatile_write16 __tsan_unaligned_write16);
hook!(1, plain_update::<1>, __tsan_read_write1 __tsan_unaligned_read_write1);
hook!(1, plain_update::<2>, __tsan_read_write2 __tsan_unaligned_read_write2);
hook!(1, plain_update::<4>, __tsan_read_write4 __tsan_unaligned_read_write4);
hook!(1, plain_update::<8>, __tsan_read_write8 __tsan_unaligned_read_write8);
hook!(1, plain_update::<16>, __tsan_read_write16 __tsan_unaligned_read_write16);
hook!(2, read_range, __tsan_read_range);
hook!(2, write_range, __tsan_write_range);
hook!(1, fence, __tsan_atomic_thread_fence);
hook!(3, copy, __tsan_memcpy __tsan_memmove);
hook!(3, set, __tsan_memset);
hook!(0, nothing, __tsan_init __tsan_func_entry __tsan_func_exit __tsan_vptr_read __tsan_vptr_update
    __tsan_atomic_signal_fence __tsan_ignore_thread_begin __tsan_ignore_thread_end);
