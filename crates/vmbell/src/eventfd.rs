//! Eventfds, identified as in the kernel: by the kernel object, not by the descriptor. Signalling
//! and draining never block, even if a guest, its sandbox or another process uses the same eventfd.
//!
//! Doorbells and irqfds are registered with a descriptor, and found again by the eventfd that it refers to: KVM
//! compares the kernel objects, so a `dup()`ed or passed descriptor names the same registration. The kernel shows that
//! identity as `eventfd-id` in `/proc/self/fdinfo` (Linux `fs/eventfd.c`, since 5.2). The number is unique among open
//! eventfds, and each registration keeps a descriptor of its eventfd open.
//!
//! A `write` to a full eventfd without EFD_NONBLOCK sleeps until a reader drains it, and other processes can fill it or
//! change the flag at any moment. The kernel itself signals by `eventfd_signal`, which adds 1 up to the limit and then
//! reports EPOLLERR. KVM calls it for ioeventfds, and so does an asynchronous I/O request that completes
//! (IOCB_FLAG_RESFD in Linux `include/uapi/linux/aio_abi.h`), which a [`Signaller`] uses. `pwritev2` with RWF_NOWAIT is
//! refused for an eventfd.
//!
//! Any thread may use the types and functions. [`EventFd`] is the type of the vmm-sys-util crate, in the version that
//! this library's interface uses.
//!
//! ```
//! use vmbell::eventfd::{EFD_NONBLOCK, EventFd, EventId};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (one, other) = (EventFd::new(EFD_NONBLOCK)?, EventFd::new(EFD_NONBLOCK)?);
//! assert_eq!(EventId::of(&one)?, EventId::of(&one.try_clone()?)?);
//! assert_ne!(EventId::of(&one)?, EventId::of(&other)?);
//! # Ok(())
//! # }
//! ```

use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;
use std::{fs, io, ptr};

use vmm_sys_util::aio::{IOCB_FLAG_RESFD, IoContext, IoControlBlock, IoEvent};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

use crate::sync::Mutex;

pub use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EFD_SEMAPHORE, EventFd};

const FDINFO: &str = "/proc/self/fdinfo";

/// The identity of an eventfd, the same for all its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(u64);

impl EventId {
    /// Returns the identity of the eventfd that a descriptor of this process refers to.
    pub fn of(event: &impl AsRawFd) -> Result<Self, EventFdError> {
        Self::in_directory(Path::new(FDINFO), event.as_raw_fd())
    }

    /// The identity of the eventfd with this `eventfd-id` in a `/proc/PID/fdinfo/FD`. For an eventfd of this process,
    /// use [`of`](Self::of).
    pub const fn from_raw(id: u64) -> Self {
        Self(id)
    }

    fn in_directory(fdinfo: &Path, fd: RawFd) -> Result<Self, EventFdError> {
        match fs::read_to_string(fdinfo.join(fd.to_string())) {
            Ok(text) => parse(&text, fd),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if fdinfo.is_dir() {
                    Err(EventFdError::BadFd { fd })
                } else {
                    Err(EventFdError::NoProc)
                }
            }
            Err(source) => Err(EventFdError::Proc { fd, source }),
        }
    }
}

fn parse(fdinfo: &str, fd: RawFd) -> Result<EventId, EventFdError> {
    let field = |name: &str| {
        fdinfo
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    };
    if field("eventfd-count").is_none() {
        return Err(EventFdError::NotEventFd { fd });
    }
    field("eventfd-id")
        .and_then(|id| id.trim().parse().ok())
        .map(EventId)
        .ok_or(EventFdError::NoEventId { fd })
}

/// A descriptor that cannot be identified as an eventfd.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventFdError {
    /// The file descriptor is not open.
    #[error("file descriptor {fd} is not open")]
    BadFd {
        /// The descriptor.
        fd: i32,
    },
    /// The file descriptor is something else.
    #[error("file descriptor {fd} is not an eventfd")]
    NotEventFd {
        /// The descriptor.
        fd: i32,
    },
    /// The kernel does not show the eventfd's identity. Linux shows it since 5.2.
    #[error(
        "the kernel does not identify eventfd {fd}: /proc/self/fdinfo has no eventfd-id (Linux 5.2)"
    )]
    NoEventId {
        /// The descriptor.
        fd: i32,
    },
    /// `/proc/self/fdinfo` is missing, so no descriptor can be identified.
    #[error("/proc/self/fdinfo is missing, so eventfds cannot be told apart: mount proc on /proc")]
    NoProc,
    /// The descriptor's file in `/proc/self/fdinfo` cannot be read.
    #[error("cannot read /proc/self/fdinfo/{fd}")]
    Proc {
        /// The descriptor.
        fd: i32,
        /// The error of the read.
        source: io::Error,
    },
}

impl EventFdError {
    /// The errno that the kernel's ioctl returns for this error.
    pub const fn errno(&self) -> i32 {
        match self {
            Self::BadFd { .. } => libc::EBADF,
            Self::NotEventFd { .. } => libc::EINVAL,
            Self::NoEventId { .. } | Self::NoProc => libc::EOPNOTSUPP,
            Self::Proc { .. } => libc::EIO,
        }
    }
}

/// An asynchronous I/O request that completes once a descriptor is ready (Linux 4.18, `include/uapi/linux/aio_abi.h`).
const IOCB_CMD_POLL: u16 = 5;

/// Signals eventfds, for all threads of this process.
#[derive(Debug)]
pub struct Signaller {
    /// Locked for one request, which completes at once.
    context: Mutex<IoContext>,
    /// The eventfd on which the requests poll: it is empty, so it is always ready for a write.
    ready: EventFd,
}

impl Signaller {
    /// Returns the signaller of this process.
    ///
    /// # Errors
    ///
    /// If the kernel has no asynchronous I/O, or its limit is reached (`fs.aio-max-nr`).
    pub fn of_process() -> io::Result<&'static Self> {
        static SIGNALLER: OnceLock<Signaller> = OnceLock::new();
        if let Some(signaller) = SIGNALLER.get() {
            return Ok(signaller);
        }
        let new = Self {
            context: Mutex::new(IoContext::new(1)?),
            ready: EventFd::new(0)?,
        };
        // If two threads made a signaller at the same time, the second one is dropped here.
        Ok(SIGNALLER.get_or_init(|| new))
    }

    /// Adds 1 to the count, up to the limit, and wakes the threads that wait for the eventfd.
    pub fn signal(&self, event: &EventFd) {
        let mut request = IoControlBlock {
            aio_lio_opcode: IOCB_CMD_POLL,
            aio_fildes: self.ready.as_raw_fd().cast_unsigned(),
            aio_buf: libc::POLLOUT.unsigned_abs().into(),
            aio_flags: IOCB_FLAG_RESFD,
            aio_resfd: event.as_raw_fd().cast_unsigned(),
            ..IoControlBlock::default()
        };
        let context = self.context.lock();
        // This fails only if the kernel has no memory for the request.
        let _ = context.submit(&[&mut request]);
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let _ = context.get_events(0, &mut [IoEvent::default()], Some(&mut now));
    }
}

/// Returns whether the count of `event` is above 0, without taking it. It never blocks. Any thread may use it.
///
/// # Errors
///
/// If the kernel has no memory for the call.
#[allow(unsafe_code)]
pub fn has_count(event: &EventFd) -> io::Result<bool> {
    let mut entry = libc::pollfd {
        fd: event.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    loop {
        // SAFETY: one entry, which outlives the call; the descriptor is open.
        if unsafe { libc::poll(&raw mut entry, 1, 0) } >= 0 {
            return Ok(entry.revents & libc::POLLIN != 0);
        }
        let error = io::Error::last_os_error();
        // A pending signal, such as a kick, interrupts even a call that does not wait.
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Takes the count of `event` and returns whether it was above 0. It never blocks, with or without EFD_NONBLOCK. Any
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

/// Waits on one thread for the signals of an eventfd. One or more new signals end a wait (`epoll(7)`, `EPOLLET`). A
/// wait does not read the count, which grows until it is full; signals from the kernel end a wait even then.
#[derive(Debug)]
pub struct Signals {
    epoll: Epoll,
}

impl Signals {
    /// Watches this eventfd. The signals that its count already has are included.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors.
    pub fn of(event: &EventFd) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        let edges = EpollEvent::new(EventSet::IN | EventSet::EDGE_TRIGGERED, 0);
        epoll.ctl(ControlOperation::Add, event.as_raw_fd(), edges)?;
        Ok(Self { epoll })
    }

    /// Sleeps until the next signal, for at most about `longest`, or until a handler of a process signal has run.
    /// Returns whether the eventfd was signalled.
    ///
    /// # Errors
    ///
    /// If the kernel is older than Linux 5.11 or does not allow the call.
    #[allow(unsafe_code)]
    pub fn wait(&self, longest: Option<Duration>) -> io::Result<bool> {
        let longest = longest.map(|longest| libc::timespec {
            tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        });
        let mut event = EpollEvent::default();
        // SAFETY: the kernel writes one event, to `event`, and reads `longest`, if it is given; both outlive the call,
        // which has no signal mask. The descriptor is open as long as `self` is.
        let result = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                &raw mut event,
                1,
                longest.as_ref().map_or(ptr::null(), ptr::from_ref),
                ptr::null::<libc::sigset_t>(),
                0,
            )
        };
        if result < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(result > 0)
    }
}

#[cfg(test)]
#[path = "eventfd_test.rs"]
mod tests;
