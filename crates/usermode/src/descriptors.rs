//! The sandbox's descriptor table, which the monitor fills from outside.
//!
//! The sandbox has no code that receives descriptors. One of its threads waits forever in a system call that seccomp
//! reports to the monitor. The monitor uses SECCOMP_IOCTL_NOTIF_ADDFD on that notification, as often as needed, to put
//! a descriptor into the table (Linux `uapi/linux/seccomp.h`, 5.9). Runs on any monitor thread, under a mutex.

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use stub::layout::FD_BASE;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::error::UsermodeError;
use super::launch::fd_limit;
use super::listener::Listener;
use super::process::Process;
use super::progress::ProgressBound;
use vmbell::sync::Mutex;
use vmbell_hypervisor::Error;

/// The CPU time that a sandbox may use, after it was stopped and continued, until its descriptor thread has parked
/// again. Parking takes microseconds, but vCPUs may get the CPU first.
const PARK_BUDGET: Duration = Duration::from_secs(30);

/// The numbers of the descriptors that the monitor puts into a sandbox.
#[derive(Debug)]
pub struct Descriptors {
    listener: Listener,
    /// The eventfd that a free number refers to: writes of a hostile guest to it have no effect.
    sink: EventFd,
    numbers: Mutex<Numbers>,
}

#[derive(Debug)]
struct Numbers {
    /// The id that the kernel gave the parked system call.
    parked: u64,
    free: Vec<u32>,
    next: u32,
}

impl Descriptors {
    /// Receives the listener from a starting sandbox, and waits until its descriptor thread has parked.
    pub fn receive(
        socket: &UnixStream,
        process: &Process,
        bound: &mut ProgressBound<'_>,
    ) -> Result<Self, Error> {
        let listener = Listener::receive(socket, process, bound)?;
        let parked = listener.await_first_parked(process, bound)?;
        let sink = EventFd::new(EFD_NONBLOCK).map_err(Error::system("create an eventfd"))?;
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

    /// Puts a copy of `event` into the sandbox and returns its number there. `purpose` says in an error what the
    /// descriptor was for.
    pub fn add(
        &self,
        process: &Process,
        event: &impl AsRawFd,
        purpose: &dyn fmt::Display,
    ) -> Result<u32, Error> {
        let mut numbers = self.numbers.lock();
        let recycled = numbers.free.last().copied();
        let number = recycled.unwrap_or(numbers.next);
        let limit = fd_limit();
        let beyond = || {
            let purpose = purpose.to_string();
            Error::from(UsermodeError::FdLimit { purpose, limit })
        };
        if u64::from(number) >= limit {
            return Err(beyond());
        }
        self.install(process, event, number, &mut numbers.parked)
            .map_err(|source| match source.raw_os_error() {
                Some(libc::EBADF | libc::EMFILE) => beyond(),
                _ => Error::System {
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

    /// Revokes a number: from here on a write to it signals no doorbell.
    pub fn revoke(&self, process: &Process, number: u32) -> io::Result<()> {
        let mut numbers = self.numbers.lock();
        self.install(process, &self.sink, number, &mut numbers.parked)?;
        numbers.free.push(number);
        Ok(())
    }

    fn install(
        &self,
        process: &Process,
        event: &impl AsRawFd,
        target: u32,
        parked: &mut u64,
    ) -> io::Result<()> {
        let mut bound = ProgressBound::new(process, PARK_BUDGET);
        let added = self.listener.add_fd(event, target, parked, &mut bound);
        if matches!(&added, Err(error) if error.kind() == io::ErrorKind::UnexpectedEof) {
            // The caller then sees that the sandbox has ended, which is not an error for a removal.
            process.await_end();
        }
        added
    }
}
