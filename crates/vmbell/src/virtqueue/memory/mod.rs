//! The memory that holds rings: plain memory of this process, or guest memory of the vm-memory crate.
//!
//! A queue resolves its parts to host pointers once, at set-up, and checks ranges and alignment
//! then, so that no access translates an address. Of the virtqueue's code only this folder is unsafe. Accesses
//! do not set dirty bitmaps: a VMM that migrates a guest must mark a queue's pages itself.

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
/// If [`resolve`](Self::resolve) returns a pointer, all `len` bytes from it on are mapped for
/// reads and writes, and stay so while the value or a clone of it is alive, even if it is moved.
/// Nothing in this process holds a plain reference to these bytes.
pub unsafe trait RingMemory: Clone {
    /// The host pointer to `len` bytes at `addr`; `None` if not all of them are memory, or if they are not
    /// contiguous in the host's address space.
    fn resolve(&self, addr: u64, len: usize) -> Option<NonNull<u8>>;
}
