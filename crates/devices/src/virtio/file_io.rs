//! Reads and writes of a file at a position, directly to and from the guest memory of a request (`preadv(2)`; one slice
//! alone costs less by `pread(2)`). They run on the thread that handles the request.
#![allow(unsafe_code, reason = "system calls on slices of guest memory")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::slices::{Readable, Slices, Writable};

/// The most slices of one system call.
const BATCH: usize = 32;

const EMPTY: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

/// Fills `to` with the bytes of a file from `at` on. A part may be filled if this fails, as it does at the end of the file.
pub(super) fn read_exact_at(file: &File, to: Writable<'_>, at: u64) -> io::Result<()> {
    let file = file.as_raw_fd();
    transfer(to, at, io::ErrorKind::UnexpectedEof, |slices, at| {
        match slices {
            // SAFETY: `file` is open during the call. `one` is memory that `to` borrows, so that it stays mapped; the kernel
            // may write it, as others may at any time.
            [one] => unsafe { libc::pread(file, one.iov_base, one.iov_len, at) },
            // SAFETY: the same for each of `slices`, which are on `transfer`'s frame.
            _ => unsafe { libc::preadv(file, slices.as_ptr(), len(slices), at) },
        }
    })
}

/// Writes all of `from` to a file, from `at` on. A part may be written if this fails.
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

/// The number of slices, which is at most [`BATCH`].
fn len(slices: &[libc::iovec]) -> libc::c_int {
    libc::c_int::try_from(slices.len()).unwrap_or(libc::c_int::MAX)
}

/// Calls `call` with slices and with the position of their bytes until none are left; fails with `end` if it does nothing.
fn transfer<const WRITABLE: bool>(
    mut left: Slices<'_, WRITABLE>,
    mut at: u64,
    end: io::ErrorKind,
    call: impl Fn(&[libc::iovec], libc::off_t) -> isize,
) -> io::Result<()> {
    while !left.is_empty() {
        let mut batch = [EMPTY; BATCH];
        let mut count = 0;
        for (entry, slice) in batch.iter_mut().zip(left.slices()) {
            entry.iov_base = slice.ptr_guard_mut().as_ptr().cast();
            entry.iov_len = slice.len();
            count += 1;
        }
        let position = libc::off_t::try_from(at);
        let position = position.map_err(|_| io::ErrorKind::InvalidInput)?;
        match usize::try_from(call(&batch[..count], position)) {
            Ok(0) => return Err(end.into()),
            Ok(done) => {
                left.skip(done);
                at += done as u64;
            }
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "file_io_test.rs"]
mod tests;
