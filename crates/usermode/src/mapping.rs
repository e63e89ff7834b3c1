//! Memory files that monitor and sandbox share, and the monitor's mappings of them. The thread that starts a sandbox
//! creates them; all threads of the monitor then read and write the mappings.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

use vmbell_hypervisor::Error;

/// Makes an executable memory file of `size` bytes, which can be sealed later.
pub fn memory_file(name: &CStr, size: u64) -> Result<File, Error> {
    const FLAGS: MemfdFlags = MemfdFlags::CLOEXEC.union(MemfdFlags::ALLOW_SEALING);
    // Without MFD_EXEC, `vm.memfd_noexec` may make the file non-executable. Linux before 6.3 refuses the flag.
    let fd = match memfd_create(name, FLAGS | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => memfd_create(name, FLAGS),
        created => created,
    };
    let file = File::from(fd.map_err(Error::system(
        "create an executable memory file (memfd_create; see vm.memfd_noexec)",
    ))?);
    file.set_len(size)
        .map_err(Error::system("size a memory file"))?;
    Ok(file)
}

/// Adds seals to a memory file.
pub fn seal(file: &File, seals: SealFlags) -> Result<(), Error> {
    fcntl_add_seals(file, seals).map_err(Error::system("seal a memory file"))
}

/// A value of type `T` at an offset of a memory file, mapped for the monitor.
#[derive(Debug)]
pub struct Mapping<T: SharedLayout> {
    address: NonNull<T>,
    value: PhantomData<T>,
}

/// Marks types for which any bytes are a valid value, although the sandbox may change them at any time: atomics, and
/// integers that no thread writes once the memory is shared.
///
/// # Safety
/// All-zero bytes must be a valid value, and all fields that the sandbox can write must be atomic. Once a
/// [`Mapping`] can be shared, no thread writes the other fields.
pub unsafe trait SharedLayout: Send + Sync {}

// SAFETY: integers and atomics throughout; the constant parts lie in memory the sandbox maps read-only.
unsafe impl SharedLayout for stub::layout::Control {}
// SAFETY: atomics throughout.
unsafe impl SharedLayout for stub::layout::SharedState {}

impl<T: SharedLayout> Mapping<T> {
    /// Makes a memory file of `size` bytes, which must hold a whole `T` at its start, and maps that `T`. `fill` writes
    /// the value before any other code has the file.
    pub fn create(
        name: &CStr,
        size: u64,
        fill: impl FnOnce(&mut T) -> Result<(), Error>,
    ) -> Result<(File, Self), Error> {
        let file = memory_file(name, size)?;
        let mut mapping = Self::new(&file, 0)?;
        // SAFETY: mapped for as long as `mapping` lives. The reference is exclusive: this is the only mapping of a file
        // that was made above and leaves this function only after the reference has ended.
        fill(unsafe { mapping.address.as_mut() })?;
        Ok((file, mapping))
    }

    /// Maps `file`, which must hold a whole `T` at `offset`.
    pub fn new(file: &File, offset: u64) -> Result<Self, Error> {
        let offset = libc::off_t::try_from(offset).map_err(|error| Error::System {
            operation: "map shared memory",
            source: io::Error::other(error),
        })?;
        // SAFETY: a new mapping at an address of the kernel's choice; it replaces nothing.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<T>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset,
            )
        };
        match NonNull::new(address.cast::<T>()) {
            Some(found) if address != libc::MAP_FAILED => Ok(Self {
                address: found,
                value: PhantomData,
            }),
            _ => Err(Error::last("map shared memory")),
        }
    }
}

impl<T: SharedLayout> Deref for Mapping<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: mapped for as long as `self` lives; `T` is `SharedLayout`, so all that others write is atomic.
        unsafe { self.address.as_ref() }
    }
}

impl<T: SharedLayout> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: our mapping, of this size, to which no reference outlives `self`.
        unsafe { libc::munmap(self.address.as_ptr().cast(), size_of::<T>()) };
    }
}

// SAFETY: `T` is `Send` and owned by this mapping alone on the monitor's side; the sandbox writes only its atomics
// (`SharedLayout`).
unsafe impl<T: SharedLayout> Send for Mapping<T> {}
// SAFETY: a shared mapping gives out `&T` only, and `T` is `Sync`; the sandbox writes only its atomics.
unsafe impl<T: SharedLayout> Sync for Mapping<T> {}
