//! A tap with an address for one guest. It is created for a boot, and removed on drop.
#![allow(unsafe_code, reason = "ioctls that make and remove an interface")]

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use super::interface::{InterfaceError, InterfaceName, TUN, check, flags};

/// Requests of Linux `uapi/linux/if_tun.h`.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETPERSIST: libc::c_ulong = 0x4004_54cb;
/// The kernel replaces `%d` by a number.
const PATTERN: &str = "vmbell%d";
/// How often, and at what interval, to try to remove a tap that is still in use.
const LOOKS: u32 = 50;
const LOOK: Duration = Duration::from_millis(20);

/// An interface of the host, which is up.
#[derive(Debug)]
pub(super) struct HostTap {
    name: InterfaceName,
}

impl HostTap {
    /// Creates a tap with the host's address.
    pub(super) fn new() -> Result<Self, InterfaceError> {
        let (file, name) = attach(PATTERN).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => InterfaceError::NotPermitted,
            _ => InterfaceError::OpenTap(error),
        })?;
        let tap = Self { name };
        // A VMM opens the tap by name, which fails while the tap is open here.
        keep(&file, true).map_err(|source| InterfaceError::Setting {
            operation: "keep the file",
            name: name.to_string(),
            source,
        })?;
        drop(file);
        name.set_up()?;
        Ok(tap)
    }

    /// The tap's name.
    pub(super) const fn name(&self) -> InterfaceName {
        self.name
    }
}

impl Drop for HostTap {
    fn drop(&mut self) {
        for _ in 0..LOOKS {
            let name = self.name.to_string();
            // The interface disappears with its last descriptor.
            match attach(&name).and_then(|(file, _)| keep(&file, false)) {
                // The VMM is dead; the kernel may still be closing what it had open.
                Err(error) if error.kind() == ErrorKind::ResourceBusy => thread::sleep(LOOK),
                // Another failure cannot be reported.
                _ => return,
            }
        }
    }
}

/// Makes a tap and removes it, to find out whether a VMM can make one.
pub(crate) fn try_tap() -> io::Result<()> {
    attach(PATTERN).map(drop)
}

/// Opens the tap with this name, and creates it if there is none.
fn attach(name: &str) -> io::Result<(File, InterfaceName)> {
    let file = OpenOptions::new().read(true).write(true).open(TUN)?;
    let name = InterfaceName::new(name).ok_or(ErrorKind::InvalidInput)?;
    let mut request = name.request();
    request.ifr_ifru.ifru_flags = flags(libc::IFF_TAP | libc::IFF_NO_PI);
    // SAFETY: `file` is open; `request` is a whole ifreq on this frame, which the kernel reads and writes in the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &raw mut request) })?;
    Ok((file, InterfaceName::of(&request)))
}

/// Sets whether the interface outlives its descriptors.
fn keep(file: &File, keep: bool) -> io::Result<()> {
    // SAFETY: `file` is open, and the request takes a number.
    check(unsafe {
        libc::ioctl(
            file.as_raw_fd(),
            TUNSETPERSIST as _,
            libc::c_ulong::from(keep),
        )
    })
}
