//! The seccomp listener of a sandbox's descriptor thread (Linux `uapi/linux/seccomp.h`, 5.9).
//!
//! The descriptor thread waits forever in a system call that the kernel reports to this listener. A signal that stops
//! the sandbox ends the call; when the sandbox continues, the kernel repeats the call under a new id. Every wait here
//! has a bound. SECCOMP_IOCTL_NOTIF_RECV is called only when there is a notification to receive: once no thread has the
//! filter any more, it would block forever (before Linux 6.11) or fail again and again.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use vmm_sys_util::ioctl::{ioctl_with_mut_ref, ioctl_with_ref};
use vmm_sys_util::sock_ctrl_msg::ScmSocket;
use vmm_sys_util::{ioctl_iow_nr, ioctl_iowr_nr};

use super::process::Process;
use super::progress::{ProgressBound, await_readable};
use vmbell_hypervisor::Error;

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

/// The listener, a descriptor of seccomp user notifications.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Receives the listener through `socket` from a starting sandbox. If the sandbox did not start, the error says
    /// why, if that is known.
    pub fn receive(
        socket: &UnixStream,
        process: &Process,
        bound: &mut ProgressBound<'_>,
    ) -> Result<Self, Error> {
        const OPERATION: &str = "receive the seccomp listener";
        await_readable(socket, bound).map_err(|error| process.start_error(OPERATION, error))?;
        let mut bytes = [0; size_of::<i32>()];
        match socket.recv_with_fd(&mut bytes) {
            Ok((_, Some(listener))) => Ok(Self(OwnedFd::from(listener))),
            // The process could not execute the stub, and sent the error number instead.
            Ok((len, None)) if len == bytes.len() => Err(Error::System {
                operation: "start the sandbox process",
                source: io::Error::from_raw_os_error(i32::from_ne_bytes(bytes)),
            }),
            Ok(_) => Err(process.start_error(OPERATION, io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(Error::System {
                operation: OPERATION,
                source: io::Error::from_raw_os_error(error.errno()),
            }),
        }
    }

    /// Waits until the descriptor thread of a starting sandbox has parked, and returns the id of the parked
    /// system call.
    pub fn await_first_parked(
        &self,
        process: &Process,
        bound: &mut ProgressBound<'_>,
    ) -> Result<u64, Error> {
        self.await_parked(bound)
            .map_err(|error| process.start_error("receive the sandbox's parked system call", error))
    }

    fn await_parked(&self, bound: &mut ProgressBound<'_>) -> io::Result<u64> {
        loop {
            await_readable(&self.0, bound)?;
            let mut notification = Notification::default();
            // SAFETY: the kernel fills in a zeroed `struct seccomp_notif`; the listener is open.
            let result = unsafe {
                ioctl_with_mut_ref(&self.0, SECCOMP_IOCTL_NOTIF_RECV(), &mut notification)
            };
            if result >= 0 {
                return Ok(notification.id);
            }
            let error = io::Error::last_os_error();
            // ENOENT: the system call was interrupted before it was received. If the sandbox continues, it is
            // reported again.
            if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::ENOENT)) {
                return Err(error);
            }
            bound.check()?;
        }
    }

    /// Puts a copy of `event` into the sandbox's descriptor table, as number `target`. `parked` is the id of the parked
    /// system call; it is updated if the sandbox was stopped in between.
    pub fn add_fd(
        &self,
        event: &impl AsRawFd,
        target: u32,
        parked: &mut u64,
        bound: &mut ProgressBound<'_>,
    ) -> io::Result<()> {
        let source = event.as_raw_fd().cast_unsigned();
        loop {
            let request = AddFd {
                id: *parked,
                flags: SECCOMP_ADDFD_FLAG_SETFD,
                source,
                target,
                target_flags: libc::O_CLOEXEC.cast_unsigned(),
            };
            // SAFETY: the kernel reads `request`; the listener and `event` are open during the call.
            let result = unsafe { ioctl_with_ref(&self.0, SECCOMP_IOCTL_NOTIF_ADDFD(), &request) };
            if result >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // The sandbox was stopped (SIGSTOP, a freezer) before this call or during it. When it continues, its
                // thread parks again, under a new id.
                Some(libc::ENOENT | libc::ESRCH) => *parked = self.await_parked(bound)?,
                _ => return Err(error),
            }
            bound.check()?;
        }
    }
}
