//! System calls directly on the guest memory of a request, without a copy in this process: reads and writes of a file
//! at a position, messages of a tap or a socket, and random bytes. A single slice costs less with `pread(2)` than with
//! `preadv(2)`, and with `write(2)` than with `writev(2)`. Runs on the thread that handles the request.
#![allow(unsafe_code, reason = "system calls on slices of guest memory")]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use vm_memory::VolatileSlice;

use super::request::{Readable, Slices, Writable};

/// The maximum number of slices per system call on a stream. A message with more slices needs an allocation.
const BATCH: usize = 32;

/// Left uninitialized: filling all entries would take longer than writing the few that most requests need.
const UNWRITTEN: [MaybeUninit<libc::iovec>; BATCH] = [const { MaybeUninit::uninit() }; BATCH];

/// Fills `to` with the bytes of a file from `at` on. If this fails, as at the end of the file, a part may be filled.
pub(super) fn read_exact_at(file: &File, to: Writable<'_>, at: u64) -> io::Result<()> {
    let file = file.as_raw_fd();
    transfer(to, at, io::ErrorKind::UnexpectedEof, |slices, at| {
        match slices {
            // SAFETY: `file` is open during the call. `one` is memory that `to` borrows, so that it stays mapped; the
            // kernel may write it, as others may at any time.
            [one] => unsafe { libc::pread(file, one.iov_base, one.iov_len, at) },
            // SAFETY: the same for each of `slices`, which are on `transfer`'s frame.
            _ => unsafe { libc::preadv(file, slices.as_ptr(), len(slices), at) },
        }
    })
}

/// Writes all of `from` to a file, from `at` on. If this fails, a part may have been written.
pub(super) fn write_all_at(file: &File, from: Readable<'_>, at: u64) -> io::Result<()> {
    let file = file.as_raw_fd();
    transfer(from, at, io::ErrorKind::WriteZero, |slices, at| {
        match slices {
            // SAFETY: as for reading; the kernel reads the memory that `from` borrows.
            [one] => unsafe { libc::pwrite(file, one.iov_base, one.iov_len, at) },
            // SAFETY: the same for each of `slices`, which are on `transfer`'s frame.
            _ => unsafe { libc::pwritev(file, slices.as_ptr(), len(slices), at) },
        }
    })
}

/// Reads once: a message, or what a stream has now. The bytes that do not fit into `to` go into `spare`. Returns the
/// total number of bytes.
pub(super) fn read_once(file: &File, to: Writable<'_>, spare: &mut [u8]) -> io::Result<usize> {
    let file = file.as_raw_fd();
    let spare = libc::iovec {
        iov_base: spare.as_mut_ptr().cast(),
        iov_len: spare.len(),
    };
    let all = to.slices().map(entry).chain([spare]);
    // SAFETY: `file` is open during the call. The memory is what `to` borrows, which the kernel may write as others may
    // at any time, and `spare`, which is borrowed for writing.
    with_all(all, |slices| unsafe {
        libc::readv(file, slices.as_ptr(), len(slices))
    })
}

/// Writes a message that consists of `first` and then `from`.
pub(super) fn write_once(file: &File, first: &[u8], from: Readable<'_>) -> io::Result<usize> {
    let file = file.as_raw_fd();
    let first = (!first.is_empty()).then(|| libc::iovec {
        iov_base: first.as_ptr().cast_mut().cast(),
        iov_len: first.len(),
    });
    let all = first.into_iter().chain(from.slices().map(entry));
    with_all(all, |slices| match slices {
        // SAFETY: `file` is open during the call. The kernel only reads `first` or the memory that `from` borrows.
        [one] => unsafe { libc::write(file, one.iov_base, one.iov_len) },
        // SAFETY: the same for each of `slices`.
        _ => unsafe { libc::writev(file, slices.as_ptr(), len(slices)) },
    })
}

/// Fills `to` with random bytes from the kernel.
pub(super) fn fill_randomly(to: Writable<'_>) -> io::Result<()> {
    for slice in to.slices() {
        let (at, len) = (slice.ptr_guard_mut(), slice.len());
        let mut done = 0;
        while done < len {
            let rest = at.as_ptr().wrapping_add(done);
            // SAFETY: `rest` has `len - done` bytes of memory that `to` borrows; the kernel may write it, as others may
            // at any time.
            let got = repeat(|| unsafe { libc::getrandom(rest.cast(), len - done, 0) })?;
            // After a signal, the call may have filled fewer bytes.
            done += got;
        }
    }
    Ok(())
}

fn entry(slice: VolatileSlice<'_>) -> libc::iovec {
    libc::iovec {
        iov_base: slice.ptr_guard_mut().as_ptr().cast(),
        iov_len: slice.len(),
    }
}

/// The number of slices, which the kernel refuses if it is above 1024.
fn len(slices: &[libc::iovec]) -> libc::c_int {
    libc::c_int::try_from(slices.len()).unwrap_or(libc::c_int::MAX)
}

/// Calls `call` until no signal interrupts it.
fn repeat(call: impl Fn() -> isize) -> io::Result<usize> {
    loop {
        if let Ok(done) = usize::try_from(call()) {
            return Ok(done);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Calls `call` with all slices at once.
fn with_all(
    all: impl Iterator<Item = libc::iovec>,
    call: impl Fn(&[libc::iovec]) -> isize,
) -> io::Result<usize> {
    let mut few = UNWRITTEN;
    let (mut many, mut count) = (Vec::new(), 0);
    for slice in all {
        if let Some(place) = few.get_mut(count) {
            place.write(slice);
        } else {
            if many.is_empty() {
                many.extend_from_slice(written(&few, BATCH));
            }
            many.push(slice);
        }
        count += 1;
    }
    let slices = if count > BATCH {
        &many
    } else {
        written(&few, count)
    };
    repeat(|| call(slices))
}

/// The first `count` entries, all of which the caller has written.
fn written(entries: &[MaybeUninit<libc::iovec>; BATCH], count: usize) -> &[libc::iovec] {
    let entries = &entries[..count];
    // SAFETY: the callers, `with_all` and `transfer`, write the entries in order and pass their number. A slice of
    // `MaybeUninit` has the layout of a slice of its type, and the borrow is the same.
    unsafe { std::slice::from_raw_parts(entries.as_ptr().cast(), entries.len()) }
}

/// Calls `call` with slices and the position of their bytes until no bytes are left; fails with `end` if a call
/// transfers nothing.
fn transfer<const WRITABLE: bool>(
    mut left: Slices<'_, WRITABLE>,
    mut at: u64,
    end: io::ErrorKind,
    call: impl Fn(&[libc::iovec], libc::off_t) -> isize,
) -> io::Result<()> {
    while !left.is_empty() {
        let mut batch = UNWRITTEN;
        let mut count = 0;
        for (place, slice) in batch.iter_mut().zip(left.slices()) {
            place.write(entry(slice));
            count += 1;
        }
        let position = libc::off_t::try_from(at);
        let position = position.map_err(|_| io::ErrorKind::InvalidInput)?;
        match repeat(|| call(written(&batch, count), position))? {
            0 => return Err(end.into()),
            done => {
                left.skip(done);
                at += done as u64;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "host_io_test.rs"]
mod tests;
