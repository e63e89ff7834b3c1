//! A tap: an interface of the host whose other end is a file (Linux `Documentation/networking/tuntap.rst`).
#![allow(unsafe_code, reason = "ioctls on a tap's descriptor")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use vmm_sys_util::ioctl::{ioctl_with_mut_ref, ioctl_with_ref, ioctl_with_val};

use super::offload;
use crate::virtio::host_io::{read_once, write_once};
use crate::virtio::request::{Readable, Writable};

/// The bytes of the header before each packet (`struct virtio_net_hdr`).
pub(super) const HEADER: usize = 12;

const DEVICE: &str = "/dev/net/tun";
/// The folder with a subfolder for each interface.
const INTERFACES: &str = "/sys/class/net";
/// Requests of Linux `uapi/linux/if_tun.h`.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETVNETHDRSZ: libc::c_ulong = 0x4004_54d8;
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const IFF_TAP: i16 = 0x0002;
const IFF_NO_PI: i16 = 0x1000;
const IFF_VNET_HDR: i16 = 0x4000;

/// Why a tap cannot be used, and what the user can do about that.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapError {
    /// An interface cannot have this name.
    #[error(
        "'{name}' cannot be the name of an interface: it takes 1 to 15 characters, and no slash or space"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The host has no taps.
    #[error("cannot open {DEVICE}: `modprobe tun` brings it")]
    Open(#[source] io::Error),
    /// This user may not open any tap.
    #[error(
        "this user may not open {DEVICE}: `chmod 666 {DEVICE}` as root lets every user open those taps that are made for \
         them"
    )]
    Closed(#[source] io::Error),
    /// Another process has the other end.
    #[error("{name} is in use by another program: end it, or take another tap")]
    Busy {
        /// The interface.
        name: String,
    },
    /// There is no such interface, and this user may not make one.
    #[error(
        "there is no interface {name}, and this user may not make one: `ip tuntap add dev {name} mode tap user {user} && ip \
         link set {name} up` as root makes one that this user may use"
    )]
    NotPermitted {
        /// The interface.
        name: String,
        /// The number of the user.
        user: u32,
    },
    /// The interface belongs to another user.
    #[error(
        "this user may not use {name}, which is there: take another tap, or, as root, replace it by `ip tuntap del dev {name} \
         mode tap && ip tuntap add dev {name} mode tap user {user} && ip link set {name} up`"
    )]
    Foreign {
        /// The interface.
        name: String,
        /// The number of the user.
        user: u32,
    },
    /// The interface is not a tap, or is a tap with several queues.
    #[error("{name} is an interface of another kind than a tap with one queue: take another name")]
    NoTap {
        /// The interface.
        name: String,
    },
    /// The interface cannot be used for another reason.
    #[error("cannot {operation} of {name}")]
    Setting {
        /// What was tried.
        operation: &'static str,
        /// The interface.
        name: String,
        /// The error.
        source: io::Error,
    },
}

/// `struct ifreq` with flags.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    flags: i16,
    rest: [u8; 22],
}

/// The file of a tap. Each read and each write is one packet, after a virtio-net header.
#[derive(Debug)]
pub struct Tap {
    file: File,
}

impl Tap {
    /// Opens the other end of an interface, which is created if no interface has this name.
    ///
    /// # Errors
    ///
    /// The error says what the user can do.
    pub fn open(name: &str) -> Result<Self, TapError> {
        let is_sound = |byte: u8| !byte.is_ascii_whitespace() && byte != b'/' && byte != 0;
        // One byte is for the zero after the name. A `%` makes the name a pattern, from which the kernel makes a name.
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || !name.bytes().all(is_sound) {
            let name = name.to_owned();
            return Err(TapError::Name { name });
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(DEVICE)
            .map_err(|source| match source.kind() {
                io::ErrorKind::PermissionDenied => TapError::Closed(source),
                _ => TapError::Open(source),
            })?;
        let mut request = Request {
            name: [0; libc::IFNAMSIZ],
            flags: IFF_TAP | IFF_NO_PI | IFF_VNET_HDR,
            rest: [0; 22],
        };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: `file` is this function's open descriptor; `request` is a whole `struct ifreq` on this frame, which
        // the kernel reads and writes during the call only.
        let set = unsafe { ioctl_with_mut_ref(&file, TUNSETIFF, &mut request) };
        check(set).map_err(|source| refusal(name, source))?;
        let len = i32::try_from(HEADER).unwrap_or(i32::MAX);
        // SAFETY: as above; `len` is an int, which the kernel reads during the call only.
        let set = unsafe { ioctl_with_ref(&file, TUNSETVNETHDRSZ, &len) };
        check(set).map_err(|source| TapError::Setting {
            operation: "set the header's size",
            name: name.to_owned(),
            source,
        })?;
        Ok(Self { file })
    }

    /// Takes a tap that another process has opened: non-blocking, and with headers of 12 bytes (`TUNSETVNETHDRSZ`). Any
    /// file works if each read and each write is one such packet.
    pub fn from_file(file: File) -> Self {
        Self { file }
    }

    /// Makes the host send only packets that a driver with these accepted features can take.
    pub(in crate::virtio) fn accept(&self, features: u64) -> io::Result<()> {
        let flags = offload::flags(features);
        // SAFETY: `self.file` is open as long as `self` is; the request takes a number, and no pointer.
        check(unsafe { ioctl_with_val(&self.file, TUNSETOFFLOAD, flags) })
    }

    /// Reads a packet with its header, and returns its length. If the packet is longer than `to`, it is lost, and the
    /// result is at least one byte more than `to` has room for.
    pub(super) fn read(&self, to: Writable<'_>) -> io::Result<usize> {
        // Without room for a header the kernel would fail instead.
        read_once(&self.file, to, &mut [0; HEADER + 1])
    }

    /// Writes a packet, whose header is `header` or at the start of `packet`. A packet that the host refuses, for
    /// example because its interface is down, is lost.
    pub(super) fn write(&self, header: &[u8], packet: Readable<'_>) {
        let _ = write_once(&self.file, header, packet);
    }

    /// A pair of sockets instead of a tap: what is sent to the second is received from the first.
    #[cfg(test)]
    pub(in crate::virtio) fn double() -> (Self, std::os::unix::net::UnixDatagram) {
        let (tap, other) = std::os::unix::net::UnixDatagram::pair().unwrap();
        tap.set_nonblocking(true).unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(tap));
        (Self::from_file(file), other)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn refusal(name: &str, source: io::Error) -> TapError {
    let is_there = Path::new(INTERFACES).join(name).exists();
    let user = rustix::process::geteuid().as_raw();
    let name = name.to_owned();
    match source.raw_os_error() {
        Some(libc::EBUSY) => TapError::Busy { name },
        Some(libc::EPERM | libc::EACCES) if is_there => TapError::Foreign { name, user },
        Some(libc::EPERM | libc::EACCES) => TapError::NotPermitted { name, user },
        Some(libc::EINVAL) if is_there => TapError::NoTap { name },
        _ => TapError::Setting {
            operation: "open the other end",
            name,
            source,
        },
    }
}
