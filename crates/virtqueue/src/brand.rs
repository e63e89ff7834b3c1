//! Brands: types that distinguish queues, so that one queue's token cannot be polled on another.
//!
//! Every driver side has a brand, a type that it shares with its tokens and with no other queue. [`scoped`] makes a
//! brand for queues that live inside a function; [`queue_brand!`](crate::queue_brand) declares a brand for a queue that
//! lives in a struct.
//!
//! ```
//! use vmbell_virtqueue::{
//!     Features, HostMemory, Opaque, SplitDriver, SplitLayout, Token, brand,
//! };
//!
//! let memory = HostMemory::new(8192);
//! let features = Features::default();
//! let (rx, tx) = (SplitLayout::contiguous(0, 8), SplitLayout::contiguous(4096, 8));
//! brand::scoped(|one| {
//!     brand::scoped(|two| {
//!         let mut rx = SplitDriver::<(), _, _>::new(&memory, &rx, features, one).unwrap();
//!         let mut tx = SplitDriver::<(), _, _>::new(&memory, &tx, features, two).unwrap();
//!         let opaque: Opaque<_> = rx.enable_cb_prepare();
//!         let token: Token<_> = tx.enable_cb_prepare();
//!         assert!(!rx.poll(opaque) && !tx.poll(token));
//!     })
//! });
//! ```
//!
//! The compiler refuses the same code if the token belongs to the other queue, and refuses one brand for two queues:
//!
//! ```compile_fail,E0521
//! # use vmbell_virtqueue::{
//! #     Features, HostMemory, Opaque, SplitDriver, SplitLayout, Token, brand,
//! # };
//! # let memory = HostMemory::new(8192);
//! # let features = Features::default();
//! # let (rx, tx) = (SplitLayout::contiguous(0, 8), SplitLayout::contiguous(4096, 8));
//! brand::scoped(|one| {
//!     brand::scoped(|two| {
//!         let mut rx = SplitDriver::<(), _, _>::new(&memory, &rx, features, one).unwrap();
//!         let mut tx = SplitDriver::<(), _, _>::new(&memory, &tx, features, two).unwrap();
//!         let opaque: Opaque<_> = rx.enable_cb_prepare();
//!         let token: Token<_> = tx.enable_cb_prepare();
//!         assert!(!rx.poll(opaque) && !rx.poll(token)); // a token of `tx`
//!     })
//! });
//! ```
//!
//! ```compile_fail,E0382
//! # use vmbell_virtqueue::{Features, HostMemory, SplitDriver, SplitLayout, brand};
//! # let memory = HostMemory::new(8192);
//! # let features = Features::default();
//! # let (rx, tx) = (SplitLayout::contiguous(0, 8), SplitLayout::contiguous(4096, 8));
//! brand::scoped(|one| {
//!     let rx = SplitDriver::<(), _, _>::new(&memory, &rx, features, one).unwrap();
//!     let tx = SplitDriver::<(), _, _>::new(&memory, &tx, features, one).unwrap();
//! });
//! ```

use std::marker::PhantomData;

/// A type of which at most one value exists at a time; one queue holds that value: [`Scoped`], or a type that
/// [`queue_brand!`](crate::queue_brand) has declared.
pub trait Brand: sealed::Sealed {}

/// Seals [`Brand`]; only `queue_brand!` names it.
#[doc(hidden)]
pub mod sealed {
    pub trait Sealed {}
}

/// A brand that is unique because no other brand has its lifetime.
#[derive(Debug)]
pub struct Scoped<'id>(PhantomData<fn(&'id ()) -> &'id ()>);

impl sealed::Sealed for Scoped<'_> {}

impl Brand for Scoped<'_> {}

/// Calls `body` with a brand that differs from that of every other call.
pub fn scoped<R>(body: impl for<'id> FnOnce(Scoped<'id>) -> R) -> R {
    body(Scoped(PhantomData))
}

/// Declares a brand for one queue of the process.
///
/// Its `take` returns the brand's only value on the first call, and `None` after that.
///
/// ```
/// vmbell_virtqueue::queue_brand!(pub RxQueue);
/// assert!(RxQueue::take().is_some());
/// assert!(RxQueue::take().is_none());
/// ```
///
/// Tokens of queues with different brands are of different types:
///
/// ```compile_fail,E0308
/// use vmbell_virtqueue::Token;
///
/// vmbell_virtqueue::queue_brand!(RxQueue);
/// vmbell_virtqueue::queue_brand!(TxQueue);
///
/// fn same(token: Token<RxQueue>) -> Token<TxQueue> {
///     token
/// }
/// ```
#[macro_export]
macro_rules! queue_brand {
    ($(#[$meta:meta])* $visibility:vis $name:ident) => {
        $(#[$meta])*
        #[derive(Debug)]
        $visibility struct $name(());

        impl $name {
            /// The only value, at the first call; `None` after that.
            #[allow(dead_code)]
            $visibility fn take() -> Option<Self> {
                static TAKEN: std::sync::atomic::AtomicBool =
                    std::sync::atomic::AtomicBool::new(false);
                let taken = TAKEN.swap(true, std::sync::atomic::Ordering::Relaxed);
                (!taken).then_some(Self(()))
            }
        }

        impl $crate::brand::sealed::Sealed for $name {}

        impl $crate::Brand for $name {}
    };
}
