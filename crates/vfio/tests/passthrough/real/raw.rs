//! VFIO_DEVICE_SET_IRQS with any bytes, to see the kernel's errno for requests that the core never makes.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use vmbell_vfio::device::Device;

/// Data types.
pub const NONE: u32 = 1 << 0;
pub const BOOL: u32 = 1 << 1;
pub const EVENTFD: u32 = 1 << 2;
/// Actions.
pub const MASK: u32 = 1 << 3;
pub const UNMASK: u32 = 1 << 4;
pub const TRIGGER: u32 = 1 << 5;

/// Bytes of `struct vfio_irq_set`.
pub const HEAD: u32 = 20;

const SET_IRQS: libc::c_ulong = 0x3b6e;
const RESET: libc::c_ulong = 0x3b6f;

/// The file of an open device.
pub fn file(device: &Device) -> Arc<File> {
    let region = device.region(0).unwrap();
    device.memory(region, &region.areas[0]).file
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Raw {
    pub argsz: u32,
    pub flags: u32,
    pub index: u32,
    pub start: u32,
    pub count: u32,
    pub fd: i32,
}

impl Raw {
    /// One interrupt, without data.
    pub const fn none(action: u32, index: u32, count: u32) -> Self {
        Self {
            argsz: HEAD,
            flags: NONE | action,
            index,
            start: 0,
            count,
            fd: -1,
        }
    }

    /// One eventfd for one interrupt.
    pub const fn eventfd(action: u32, index: u32, fd: i32) -> Self {
        Self {
            argsz: HEAD + 4,
            flags: EVENTFD | action,
            index,
            start: 0,
            count: 1,
            fd,
        }
    }

    /// The errno that the kernel answers with; 0 if it does what is asked.
    pub fn errno(self, device: &Device) -> i32 {
        let Self {
            argsz,
            flags,
            index,
            start,
            count,
            fd,
        } = self;
        let words = [argsz, flags, index, start, count, fd.cast_unsigned(), 0, 0];
        let file = file(device);
        // SAFETY: `words` has the structure and 12 bytes of data, no request here says that it has more, and the kernel
        // reads it during the call only.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), SET_IRQS, words.as_ptr()) };
        errno(result)
    }
}

/// The errno of a reset, or of any other request without an argument.
pub fn reset(device: &Device) -> i32 {
    // SAFETY: the request takes no argument.
    errno(unsafe { libc::ioctl(file(device).as_raw_fd(), RESET) })
}

/// The errno of a request that no device has.
pub fn unknown(device: &Device) -> i32 {
    // SAFETY: the kernel refuses the number before it looks at an argument.
    errno(unsafe { libc::ioctl(file(device).as_raw_fd(), SET_IRQS + 0x80) })
}

/// The errno of mapping a page of a device's file.
pub fn map(device: &Device, offset: u64) -> i32 {
    let (file, offset) = (file(device), i64::try_from(offset).unwrap());
    // SAFETY: a new mapping at an address that the kernel chooses, which nothing refers to.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            offset,
        )
    };
    if page == libc::MAP_FAILED {
        return errno(-1);
    }
    // SAFETY: the page that was just mapped.
    errno(unsafe { libc::munmap(page, 4096) })
}

fn errno(result: i32) -> i32 {
    if result < 0 {
        return io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or_default();
    }
    0
}
