//! `KVM_RUN` with nothing around it: the least that a VMM does for an exit, on the vCPU's thread.
#![allow(
    unsafe_code,
    reason = "an ioctl, and the page that the kernel answers in"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

use vmm_sys_util::ioctl::ioctl;
use vmm_sys_util::ioctl_io_nr;

ioctl_io_nr!(KVM_RUN, 0xae, 0x80);

/// Bytes of the run page that are read (Linux `uapi/linux/kvm.h`, `struct kvm_run`), and the offset of `exit_reason`.
const LEN: usize = 4096;
const EXIT_REASON: usize = 8;

/// `KVM_EXIT_IO` and `KVM_EXIT_MMIO`.
pub(super) const EXIT_IO: u32 = 2;
pub(super) const EXIT_MMIO: u32 = 6;

/// The page in which the kernel says why a vCPU has left its guest.
pub(super) struct RunPage(NonNull<u8>);

// SAFETY: the mapping belongs to this value alone, and any thread may read and unmap it.
unsafe impl Send for RunPage {}

impl RunPage {
    /// Maps the page of the vCPU with this descriptor.
    pub(super) fn map(vcpu: BorrowedFd<'_>) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice; it replaces nothing.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                LEN,
                libc::PROT_READ,
                libc::MAP_SHARED,
                vcpu.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(address.cast())
            .map(Self)
            .ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Enters the guest, and returns the exit reason. If a signal came, the error is
    /// [`Interrupted`](io::ErrorKind::Interrupted).
    #[inline]
    pub(super) fn run(&self, vcpu: BorrowedFd<'_>) -> io::Result<u32> {
        // SAFETY: an open vCPU; the call takes no pointer, and the kernel writes only to the run page.
        if unsafe { ioctl(&vcpu, KVM_RUN()) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let reason = self.0.as_ptr().wrapping_add(EXIT_REASON).cast::<u32>();
        // SAFETY: the address is inside the mapping and aligned; the kernel writes there only during the call.
        Ok(unsafe { reason.read_volatile() })
    }
}

impl Drop for RunPage {
    fn drop(&mut self) {
        // SAFETY: the mapping of this length is this value's.
        unsafe { libc::munmap(self.0.as_ptr().cast(), LEN) };
    }
}
