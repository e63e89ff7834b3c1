//! Where rings live: plain host memory, or the guest memory of the vm-memory crate.
//!
//! A queue resolves its parts to host pointers once, at set-up, and checks ranges and alignment
//! then, so that nothing is translated later. Only this folder holds unsafe code. Accesses go
//! past dirty bitmaps: whoever migrates a guest marks a queue's pages itself.

#![allow(unsafe_code)]

mod guest;
mod host;
mod words;

use std::ptr::NonNull;

pub use host::HostMemory;
pub(super) use words::{Word, Words, slice};

/// Memory that a driver and a device share.
///
/// # Safety
///
/// Where [`resolve`](Self::resolve) gives a pointer, all `len` bytes from it on are mapped for
/// reads and writes, and stay so while the value or a clone of it is alive, wherever it moves.
/// Nothing in this process holds a plain reference to them.
pub unsafe trait RingMemory: Clone {
    /// The host's pointer to `len` bytes at `addr`; none if not all of them are memory, or if
    /// they are not contiguous for the host.
    fn resolve(&self, addr: u64, len: usize) -> Option<NonNull<u8>>;
}
