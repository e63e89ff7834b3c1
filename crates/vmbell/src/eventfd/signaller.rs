//! Signals and drains eventfds that a guest, its sandbox or another process uses too, and never blocks, whatever the count
//! and the flags of the eventfd. Any thread may use it.
//!
//! A `write` to a full eventfd without EFD_NONBLOCK sleeps until somebody reads it, and others can fill it or change the
//! flag at any moment. The kernel itself signals by `eventfd_signal`, which adds 1 up to the limit and then reports
//! EPOLLERR; KVM does so for ioeventfds. A request of asynchronous I/O that completes does it too (IOCB_FLAG_RESFD in
//! Linux `include/uapi/linux/aio_abi.h`). `pwritev2` with RWF_NOWAIT is refused for an eventfd.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, OnceLock, PoisonError};

use vmm_sys_util::aio::{IOCB_FLAG_RESFD, IoContext, IoControlBlock, IoEvent};
use vmm_sys_util::eventfd::EventFd;

/// Waits until a descriptor is ready (Linux 4.18, `include/uapi/linux/aio_abi.h`).
const IOCB_CMD_POLL: u16 = 5;

/// Signals eventfds for all threads of this process.
#[derive(Debug)]
pub struct Signaller {
    /// Locked for one request, which completes at once.
    context: Mutex<IoContext>,
    /// What the requests wait for: an empty eventfd, which is always ready for a write.
    ready: EventFd,
}

impl Signaller {
    /// The signaller of this process.
    ///
    /// # Errors
    ///
    /// If the kernel has no asynchronous I/O, or no more of it (`fs.aio-max-nr`).
    pub fn of_process() -> io::Result<&'static Self> {
        static SIGNALLER: OnceLock<Signaller> = OnceLock::new();
        if let Some(signaller) = SIGNALLER.get() {
            return Ok(signaller);
        }
        let new = Self {
            context: Mutex::new(IoContext::new(1)?),
            ready: EventFd::new(0)?,
        };
        // If two threads made one at the same time, the second is dropped here.
        Ok(SIGNALLER.get_or_init(|| new))
    }

    /// Adds 1 to the count, up to the limit, and wakes those who wait for the eventfd.
    pub fn signal(&self, event: &EventFd) {
        let mut request = IoControlBlock {
            aio_lio_opcode: IOCB_CMD_POLL,
            aio_fildes: self.ready.as_raw_fd().cast_unsigned(),
            aio_buf: libc::POLLOUT.unsigned_abs().into(),
            aio_flags: IOCB_FLAG_RESFD,
            aio_resfd: event.as_raw_fd().cast_unsigned(),
            ..IoControlBlock::default()
        };
        let context = self.context.lock().unwrap_or_else(PoisonError::into_inner);
        // It fails only if the kernel has no memory for the request.
        let _ = context.submit(&[&mut request]);
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let _ = context.get_events(0, &mut [IoEvent::default()], Some(&mut now));
    }
}

/// Takes the count of `event` and returns whether it was above 0. It never blocks, whatever the flags of the eventfd. Any
/// thread may use it.
#[allow(unsafe_code)]
pub fn drain(event: &EventFd) -> bool {
    let mut count = 0_u64;
    let buffer = libc::iovec {
        iov_base: (&raw mut count).cast(),
        iov_len: size_of_val(&count),
    };
    // SAFETY: one buffer, `count`, which outlives the call; the descriptor is open.
    let read = unsafe {
        libc::preadv2(
            event.as_raw_fd(),
            &raw const buffer,
            1,
            -1,
            libc::RWF_NOWAIT,
        )
    };
    read == 8
}

#[cfg(test)]
#[cfg(not(miri))]
#[path = "signaller_test.rs"]
mod tests;
