//! The memory that driver and device share: one object, mapped twice.
//!
//! The code under test sees the first mapping, at an address that stays the same for all executions. The engine writes
//! through the second, so that the guard can make the first inaccessible while the code under test runs.
#![allow(unsafe_code)]

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The address of the first mapping, for the hooks; 0 without a mapping.
static BASE: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);

/// The offset of an address from the start of the shared memory; `None` outside it.
pub(crate) fn offset(address: usize) -> Option<u16> {
    let base = BASE.load(Ordering::Relaxed);
    let offset = address.wrapping_sub(base);
    if base != 0 && offset < LEN.load(Ordering::Relaxed) {
        u16::try_from(offset).ok()
    } else {
        None
    }
}

/// Writes through the first mapping, whose address is `base`, outside an execution.
pub(crate) fn preset(base: NonNull<u8>, at: usize, bytes: &[u8]) {
    assert!(
        offset(base.as_ptr().addr() + at).is_some(),
        "the shared memory is mapped"
    );
    // SAFETY: the range is in the first mapping, which is accessible while a scenario is set up; `Memory` checks its end.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), base.as_ptr().wrapping_add(at), bytes.len()) }
}

/// Both mappings. Only one `Mapping` exists at a time: the search holds a lock.
#[derive(Debug)]
pub(crate) struct Mapping {
    seen: NonNull<u8>,
    alias: NonNull<u8>,
    len: usize,
    /// Whether the first mapping replaced memory of the code under test. If so, its addresses stay mapped.
    borrowed: bool,
}

impl Mapping {
    /// Maps `pages` pages of zeros, over the pages at `over` if given, as the caller of `Explorer::memory_at` allows.
    pub(crate) fn new(pages: usize, over: Option<NonNull<u8>>) -> io::Result<Mapping> {
        let len = pages * 4096;
        // SAFETY: the name is a string with a NUL; the call makes a descriptor, which is closed below.
        let fd = unsafe { libc::memfd_create(c"vmbell-check".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let result = Mapping::map(fd, len, over);
        // SAFETY: `fd` was made above, and no other value owns it.
        unsafe { libc::close(fd) };
        let mapping = result?;
        LEN.store(len, Ordering::Relaxed);
        BASE.store(mapping.seen.as_ptr().addr(), Ordering::Relaxed);
        Ok(mapping)
    }

    fn map(fd: i32, len: usize, over: Option<NonNull<u8>>) -> io::Result<Mapping> {
        // SAFETY: `fd` is the open memfd of `new`; the call changes its length only.
        if unsafe { libc::ftruncate(fd, len as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping {
            seen: map_at(over, len, libc::MAP_SHARED, fd)?,
            alias: map_at(None, len, libc::MAP_SHARED, fd)?,
            len,
            borrowed: over.is_some(),
        })
    }

    /// The first mapping, which the code under test uses.
    pub(crate) fn seen(&self) -> NonNull<u8> {
        self.seen
    }

    /// Reads bytes through the second mapping.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) {
        assert!(
            offset + bytes.len() <= self.len,
            "the access is within the memory"
        );
        // SAFETY: the range is within the second mapping, which lives as long as `self`; `bytes` is elsewhere.
        unsafe {
            ptr::copy_nonoverlapping(
                self.alias.as_ptr().wrapping_add(offset),
                bytes.as_mut_ptr(),
                bytes.len(),
            );
        }
    }

    /// Writes bytes through the second mapping.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(
            offset + bytes.len() <= self.len,
            "the access is within the memory"
        );
        // SAFETY: the range is within the second mapping, which lives as long as `self`; `bytes` is elsewhere.
        unsafe {
            ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.alias.as_ptr().wrapping_add(offset),
                bytes.len(),
            );
        }
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Makes the first mapping accessible, or inaccessible.
    pub(crate) fn open(&self, open: bool) {
        let protection = if open {
            libc::PROT_READ | libc::PROT_WRITE
        } else {
            libc::PROT_NONE
        };
        // SAFETY: the range is the first mapping, which lives as long as `self`.
        let result = unsafe { libc::mprotect(self.seen.as_ptr().cast(), self.len, protection) };
        assert_eq!(result, 0, "mprotect of the shared memory fails");
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        BASE.store(0, Ordering::Relaxed);
        // SAFETY: `map` made this mapping with this length, and `self` owns it.
        unsafe { libc::munmap(self.alias.as_ptr().cast(), self.len) };
        if self.borrowed {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let result = map_at(Some(self.seen), self.len, flags, -1);
            assert!(result.is_ok(), "the owner's memory cannot be mapped again");
        } else {
            // SAFETY: as above.
            unsafe { libc::munmap(self.seen.as_ptr().cast(), self.len) };
        }
    }
}

/// Maps memory at `over`, which replaces what is there, or at an address that the kernel chooses.
fn map_at(over: Option<NonNull<u8>>, len: usize, flags: i32, fd: i32) -> io::Result<NonNull<u8>> {
    let (address, fixed) = match over {
        Some(over) => (over.as_ptr().cast(), libc::MAP_FIXED),
        None => (ptr::null_mut(), 0),
    };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: without an address a new mapping replaces no other; with one it replaces memory that the caller of
    // `Explorer::memory_at` gave up until the exploration ends.
    let at = unsafe { libc::mmap(address, len, protection, flags | fixed, fd, 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(at.cast::<u8>()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}
