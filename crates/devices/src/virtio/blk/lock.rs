//! Keeps two virtual machines from writing to one disk, and keeps each of them from writing to a disk that the other
//! one reads. The locks are advisory locks of the file's open description, on the bytes that QEMU uses
//! (`block/file-posix.c`), so that each program sees the locks of the other.
//!
//! All locks are shared. A program locks bytes of one set to say what it does with the file, and bytes of another set
//! to say what other programs must not do. It then checks whether another program's bytes contradict these.

#![allow(unsafe_code, reason = "the C library's call for such locks")]

use std::fs::File;
use std::io;
use std::mem::zeroed;
use std::os::fd::AsRawFd;

use super::image::DiskError;

/// The first byte that says what a program does, and the first byte that says what others must not do.
const DOES: libc::off_t = 100;
const FORBIDS: libc::off_t = 200;

/// What a program may do with a file, as offsets from these bytes.
const READ: libc::off_t = 0;
const WRITE: libc::off_t = 1;
const RESIZE: libc::off_t = 3;

/// Locks a file for reading, which others may also do, or for writing. The locks last as long as the file's open
/// description.
///
/// # Errors
///
/// If another program's locks conflict with these locks, or if the file system has no such locks.
pub(super) fn lock(file: &File, read_only: bool) -> Result<(), DiskError> {
    let does: &[_] = if read_only { &[READ] } else { &[READ, WRITE] };
    let forbids = [WRITE, RESIZE];
    let theirs = |byte| call(file, libc::F_OFD_SETLK, libc::F_RDLCK, byte).map(drop);
    let does_bytes = does.iter().map(|does| DOES + does);
    let forbids_bytes = forbids.iter().map(|forbids| FORBIDS + forbids);
    for byte in does_bytes.chain(forbids_bytes) {
        match theirs(byte) {
            // Another program, with other rules, has locked the whole file.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(DiskError::Locked {
                    how: "has locked all of it",
                });
            }
            locked => locked.map_err(DiskError::system("lock it"))?,
        }
    }
    let is_free = |byte| {
        let found = call(file, libc::F_OFD_GETLK, libc::F_WRLCK, byte);
        let found = found.map_err(DiskError::system("find out whether it is locked"))?;
        Ok(found == libc::F_UNLCK)
    };
    for forbids in forbids {
        if !is_free(DOES + forbids)? {
            return Err(DiskError::Locked {
                how: "writes to it",
            });
        }
    }
    for does in does {
        if !is_free(FORBIDS + does)? {
            let how = match *does {
                READ => "lets no other use it",
                _ => "lets no other write to it",
            };
            return Err(DiskError::Locked { how });
        }
    }
    Ok(())
}

/// Calls `fcntl` with `command` for a lock of this kind on a byte, and returns the lock's kind after the call.
fn call(
    file: &File,
    command: libc::c_int,
    kind: libc::c_int,
    byte: libc::off_t,
) -> io::Result<libc::c_int> {
    // SAFETY: `flock` has integers only, for which zeros are valid values.
    let mut lock: libc::flock = unsafe { zeroed() };
    let short = |value: libc::c_int| libc::c_short::try_from(value).unwrap_or_default();
    (lock.l_type, lock.l_whence) = (short(kind), short(libc::SEEK_SET));
    (lock.l_start, lock.l_len) = (byte, 1);
    // SAFETY: `file` owns the descriptor and outlives the call, as does `lock`, which the kernel reads and writes.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(lock.l_type.into())
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
#[path = "lock_test.rs"]
mod tests;
