//! The hooks of atomic operations.

use std::arch::naked_asm;
use std::sync::atomic::{self, Ordering};

use super::{call, hook, order, shared};
use crate::arch::pass_return_address;
use crate::search::Access;

/// The hooks of the atomic operations on values of one size.
macro_rules! atomics {
    ($module:ident, $type:ty, $atomic:ty, $size:literal,
        $load:ident $store:ident $exchange:ident $add:ident $sub:ident $and:ident $or:ident $xor:ident $nand:ident
        $value:ident $strong:ident $weak:ident) => {
        mod $module {
            use super::*;

            /// The atomic at an address that is not shared.
            fn real<'a>(address: *mut $type) -> &'a $atomic {
                // SAFETY: instrumented code is about to access this address as an atomic of this type, and vouches for it.
                unsafe { <$atomic>::from_ptr(address) }
            }

            #[allow(
                clippy::cast_possible_truncation,
                reason = "the value has the size of the access"
            )]
            extern "C" fn load(address: *mut $type, order_of: i32, site: usize) -> $type {
                match shared(address.addr(), site) {
                    Some(offset) => {
                        let access = Access::new(offset, $size, order(order_of), site);
                        call(|search| search.load(access)) as $type
                    }
                    None => real(address).load(Ordering::SeqCst),
                }
            }

            extern "C" fn store(address: *mut $type, value: $type, order_of: i32, site: usize) {
                match shared(address.addr(), site) {
                    Some(offset) => {
                        let access = Access::new(offset, $size, order(order_of), site);
                        call(|search| search.store(access, u64::from(value)));
                    }
                    None => real(address).store(value, Ordering::SeqCst),
                }
            }

            #[allow(
                clippy::cast_possible_truncation,
                reason = "the value has the size of the access"
            )]
            fn update(
                address: *mut $type,
                order_of: i32,
                site: usize,
                change: impl Fn($type) -> Option<$type>,
            ) -> $type {
                match shared(address.addr(), site) {
                    Some(offset) => {
                        let access = Access::new(offset, $size, order(order_of), site);
                        call(|search| {
                            search.update(access, |old| change(old as $type).map(u64::from))
                        }) as $type
                    }
                    None => {
                        match real(address).fetch_update(Ordering::SeqCst, Ordering::SeqCst, change)
                        {
                            Ok(old) | Err(old) => old,
                        }
                    }
                }
            }

            extern "C" fn exchange(
                address: *mut $type,
                value: $type,
                order: i32,
                site: usize,
            ) -> $type {
                update(address, order, site, |_| Some(value))
            }
            extern "C" fn add(address: *mut $type, value: $type, order: i32, site: usize) -> $type {
                update(address, order, site, |old| Some(old.wrapping_add(value)))
            }
            extern "C" fn sub(address: *mut $type, value: $type, order: i32, site: usize) -> $type {
                update(address, order, site, |old| Some(old.wrapping_sub(value)))
            }
            extern "C" fn and(address: *mut $type, value: $type, order: i32, site: usize) -> $type {
                update(address, order, site, |old| Some(old & value))
            }
            extern "C" fn or(address: *mut $type, value: $type, order: i32, site: usize) -> $type {
                update(address, order, site, |old| Some(old | value))
            }
            extern "C" fn xor(address: *mut $type, value: $type, order: i32, site: usize) -> $type {
                update(address, order, site, |old| Some(old ^ value))
            }
            extern "C" fn nand(
                address: *mut $type,
                value: $type,
                order: i32,
                site: usize,
            ) -> $type {
                update(address, order, site, |old| Some(!(old & value)))
            }
            #[allow(
                clippy::cast_possible_truncation,
                reason = "the value has the size of the access"
            )]
            fn exchange_if(
                address: *mut $type,
                expected: $type,
                value: $type,
                orders: [i32; 2],
                is_weak: bool,
                site: usize,
            ) -> Result<$type, $type> {
                let [success, failure] = orders.map(order);
                let Some(offset) = shared(address.addr(), site) else {
                    return real(address).compare_exchange(
                        expected,
                        value,
                        Ordering::SeqCst,
                        Ordering::SeqCst,
                    );
                };
                if is_weak && call(|search| search.fails_spuriously(site)) {
                    let access = Access::new(offset, $size, failure, site);
                    return Err(call(|search| search.load_spuriously(access)) as $type);
                }
                let access = Access {
                    compare: Some((expected.into(), failure)),
                    ..Access::new(offset, $size, success, site)
                };
                let change = |old| (old == u64::from(expected)).then_some(value.into());
                let old = call(|search| search.update(access, change)) as $type;
                if old == expected { Ok(old) } else { Err(old) }
            }
            extern "C" fn compare_value(
                address: *mut $type,
                expected: $type,
                value: $type,
                success: i32,
                failure: i32,
                site: usize,
            ) -> $type {
                match exchange_if(address, expected, value, [success, failure], false, site) {
                    Ok(old) | Err(old) => old,
                }
            }
            /// A compare-exchange, strong or weak. The second argument points to the expected value in the caller.
            unsafe extern "C" fn compare<const WEAK: bool>(
                address: *mut $type,
                expected: *mut $type,
                value: $type,
                success: i32,
                failure: i32,
                site: usize,
            ) -> bool {
                // SAFETY: the caller owns the expected value, and waits for this call.
                let before = unsafe { *expected };
                let result = exchange_if(address, before, value, [success, failure], WEAK, site);
                if let Err(old) = result {
                    // SAFETY: as above.
                    unsafe { *expected = old };
                }
                result.is_ok()
            }

            hook!(2, load, $load);
            hook!(3, store, $store);
            hook!(3, exchange, $exchange);
            hook!(3, add, $add);
            hook!(3, sub, $sub);
            hook!(3, and, $and);
            hook!(3, or, $or);
            hook!(3, xor, $xor);
            hook!(3, nand, $nand);
            hook!(5, compare_value, $value);
            hook!(5, compare::<false>, $strong);
            hook!(5, compare::<true>, $weak);
        }
    };
}

atomics!(of_8, u8, atomic::AtomicU8, 1,
    __tsan_atomic8_load __tsan_atomic8_store __tsan_atomic8_exchange __tsan_atomic8_fetch_add __tsan_atomic8_fetch_sub
    __tsan_atomic8_fetch_and __tsan_atomic8_fetch_or __tsan_atomic8_fetch_xor __tsan_atomic8_fetch_nand
    __tsan_atomic8_compare_exchange_val __tsan_atomic8_compare_exchange_strong __tsan_atomic8_compare_exchange_weak);
atomics!(of_16, u16, atomic::AtomicU16, 2,
    __tsan_atomic16_load __tsan_atomic16_store __tsan_atomic16_exchange __tsan_atomic16_fetch_add __tsan_atomic16_fetch_sub
    __tsan_atomic16_fetch_and __tsan_atomic16_fetch_or __tsan_atomic16_fetch_xor __tsan_atomic16_fetch_nand
    __tsan_atomic16_compare_exchange_val __tsan_atomic16_compare_exchange_strong __tsan_atomic16_compare_exchange_weak);
atomics!(of_32, u32, atomic::AtomicU32, 4,
    __tsan_atomic32_load __tsan_atomic32_store __tsan_atomic32_exchange __tsan_atomic32_fetch_add __tsan_atomic32_fetch_sub
    __tsan_atomic32_fetch_and __tsan_atomic32_fetch_or __tsan_atomic32_fetch_xor __tsan_atomic32_fetch_nand
    __tsan_atomic32_compare_exchange_val __tsan_atomic32_compare_exchange_strong __tsan_atomic32_compare_exchange_weak);
atomics!(of_64, u64, atomic::AtomicU64, 8,
    __tsan_atomic64_load __tsan_atomic64_store __tsan_atomic64_exchange __tsan_atomic64_fetch_add __tsan_atomic64_fetch_sub
    __tsan_atomic64_fetch_and __tsan_atomic64_fetch_or __tsan_atomic64_fetch_xor __tsan_atomic64_fetch_nand
    __tsan_atomic64_compare_exchange_val __tsan_atomic64_compare_exchange_strong __tsan_atomic64_compare_exchange_weak);
