//! The sandbox's descriptor table, which the monitor fills from outside.
//!
//! The sandbox has no code that receives descriptors. One thread of it waits for ever in a system
//! call that seccomp reports to the monitor; answering with SECCOMP_IOCTL_NOTIF_ADDFD puts a
//! descriptor into its table, as often as needed (Linux `uapi/linux/seccomp.h`, 5.9).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use stub::layout::FD_BASE;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};
use vmm_sys_util::ioctl::{ioctl_with_mut_ref, ioctl_with_ref};
use vmm_sys_util::sock_ctrl_msg::ScmSocket;
use vmm_sys_util::{ioctl_iow_nr, ioctl_iowr_nr};

use super::error::UsermodeError;
use super::launch::fd_limit;
use crate::doorbell::IoEventAddress;

/// `struct seccomp_notif`.
#[repr(C)]
#[derive(Default)]
struct Notification {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    architecture: u32,
    instruction_pointer: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif_addfd`.
#[repr(C)]
struct AddFd {
    id: u64,
    flags: u32,
    source: u32,
    target: u32,
    target_flags: u32,
}

const SECCOMP_ADDFD_FLAG_SETFD: u32 = 1;

ioctl_iowr_nr!(SECCOMP_IOCTL_NOTIF_RECV, 0x21, 0, Notification);
ioctl_iow_nr!(SECCOMP_IOCTL_NOTIF_ADDFD, 0x21, 3, AddFd);

/// The descriptors of one sandbox.
#[derive(Debug)]
pub struct Descriptors {
    listener: OwnedFd,
    /// What a number stands for between two doorbells: rings of a hostile guest end here.
    sink: EventFd,
    numbers: Mutex<Numbers>,
}

#[derive(Debug)]
struct Numbers {
    /// The parked system call, by the number that the kernel gave it.
    parked: u64,
    free: Vec<u32>,
    next: u32,
}

impl Descriptors {
    /// Receives the listener from a sandbox that starts, and the system call that it parks in.
    pub fn receive(socket: &UnixStream) -> Result<Self, UsermodeError> {
        let mut byte = [0];
        let received = socket
            .recv_with_fd(&mut byte)
            .map_err(|error| UsermodeError::System {
                operation: "receive the seccomp listener",
                source: io::Error::from_raw_os_error(error.errno()),
            })?;
        let (_, Some(listener)) = received else {
            return Err(UsermodeError::System {
                operation: "receive the seccomp listener",
                source: io::ErrorKind::UnexpectedEof.into(),
            });
        };
        let listener = OwnedFd::from(listener);
        let parked = receive_parked(&listener)?;
        let sink = EventFd::new(EFD_NONBLOCK).map_err(|source| UsermodeError::System {
            operation: "create an eventfd",
            source,
        })?;
        let numbers = Mutex::new(Numbers {
            parked,
            free: Vec::new(),
            next: FD_BASE,
        });
        Ok(Self {
            listener,
            sink,
            numbers,
        })
    }

    /// Puts a copy of `event` into the sandbox and returns its number there.
    pub fn add(&self, event: &impl AsRawFd, address: IoEventAddress) -> Result<u32, UsermodeError> {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let recycled = numbers.free.last().copied();
        let number = recycled.unwrap_or(numbers.next);
        let limit = fd_limit();
        if u64::from(number) >= limit {
            return Err(UsermodeError::FdLimit { address, limit });
        }
        self.put(event, number, &mut numbers.parked)
            .map_err(|source| match source.raw_os_error() {
                Some(libc::EBADF | libc::EMFILE) => UsermodeError::FdLimit { address, limit },
                _ => UsermodeError::System {
                    operation: "give the sandbox a descriptor",
                    source,
                },
            })?;
        if recycled.is_some() {
            numbers.free.pop();
        } else {
            numbers.next += 1;
        }
        Ok(number)
    }

    /// Takes a number back: from here on it is nobody's doorbell, whoever writes to it.
    pub fn revoke(&self, number: u32) -> Result<(), UsermodeError> {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        self.put(&self.sink, number, &mut numbers.parked)
            .map_err(|source| UsermodeError::System {
                operation: "take a descriptor from the sandbox",
                source,
            })?;
        numbers.free.push(number);
        Ok(())
    }

    fn put(&self, event: &impl AsRawFd, target: u32, parked: &mut u64) -> io::Result<()> {
        let source = event.as_raw_fd().cast_unsigned();
        let mut renewed = false;
        loop {
            let request = AddFd {
                id: *parked,
                flags: SECCOMP_ADDFD_FLAG_SETFD,
                source,
                target,
                target_flags: libc::O_CLOEXEC.cast_unsigned(),
            };
            // SAFETY: the kernel reads `request`; the listener and `event` are open during the call.
            let result =
                unsafe { ioctl_with_ref(&self.listener, SECCOMP_IOCTL_NOTIF_ADDFD(), &request) };
            if result >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // A sandbox that was stopped (SIGSTOP, a freezer) parks anew when it goes on.
                Some(libc::ENOENT) if !renewed => {
                    await_parked(&self.listener)?;
                    *parked = receive_parked(&self.listener).map_err(io::Error::other)?;
                    renewed = true;
                }
                _ => return Err(error),
            }
        }
    }
}

/// Waits for the sandbox to park again.
fn await_parked(listener: &OwnedFd) -> io::Result<()> {
    const PATIENCE_MS: libc::c_int = 1000;
    let mut poll = libc::pollfd {
        fd: listener.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry, which outlives the call.
    match unsafe { libc::poll(&raw mut poll, 1, PATIENCE_MS) } {
        -1 => Err(io::Error::last_os_error()),
        1 if poll.revents & libc::POLLIN != 0 => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "its descriptor thread is not parked; is the sandbox stopped?",
        )),
    }
}

/// Receives the parked system call, and gives its number.
fn receive_parked(listener: &OwnedFd) -> Result<u64, UsermodeError> {
    loop {
        let mut notification = Notification::default();
        // SAFETY: the kernel fills in a zeroed `struct seccomp_notif`; the listener is open.
        let result =
            unsafe { ioctl_with_mut_ref(listener, SECCOMP_IOCTL_NOTIF_RECV(), &mut notification) };
        if result >= 0 {
            return Ok(notification.id);
        }
        // ENOENT: it was interrupted before we received it, and comes again.
        if !matches!(
            io::Error::last_os_error().raw_os_error(),
            Some(libc::EINTR | libc::ENOENT)
        ) {
            return Err(UsermodeError::last(
                "receive the sandbox's parked system call",
            ));
        }
    }
}
