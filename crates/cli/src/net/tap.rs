//! A tap with an address, for one guest: it is made for a boot, and is gone with its value.
#![allow(unsafe_code, reason = "ioctls that make and set up an interface")]

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::mem;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

/// The addresses of the host and of the guest, and their mask: two of a network that is for documentation (RFC 5737), so
/// that no real host has them.
pub(super) const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(super) const GUEST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub(super) const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 252);

const DEVICE: &str = "/dev/net/tun";
/// Requests of Linux `uapi/linux/if_tun.h`.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETPERSIST: libc::c_ulong = 0x4004_54cb;
/// The kernel puts a number in the place of `%d`.
const PATTERN: &[u8] = b"vmbell%d";
/// How often, and how far apart, a tap that is still in use is tried to be removed.
const LOOKS: u32 = 50;
const LOOK: Duration = Duration::from_millis(20);

/// Why there is no tap.
#[derive(Debug, thiserror::Error)]
pub(super) enum TapError {
    /// The host has no taps.
    #[error("cannot open {DEVICE}: `modprobe tun` brings it")]
    Open(#[source] io::Error),
    /// Only root makes one.
    #[error("to make a tap takes root (CAP_NET_ADMIN): run this as root, or `vmbell lab net`")]
    NotPermitted,
    /// It cannot be set up.
    #[error("cannot {operation} of a tap")]
    Setting {
        /// What was tried.
        operation: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// An interface of the host, which is up.
#[derive(Debug)]
pub(super) struct Tap {
    name: [u8; libc::IFNAMSIZ],
}

impl Tap {
    /// Makes one, with the host's address.
    pub(super) fn new() -> Result<Self, TapError> {
        let file = open().map_err(TapError::Open)?;
        let mut name = [0; libc::IFNAMSIZ];
        name[..PATTERN.len()].copy_from_slice(PATTERN);
        let mut request = named(&name);
        request.ifr_ifru.ifru_flags = flags(libc::IFF_TAP | libc::IFF_NO_PI);
        // SAFETY: `file` is open; `request` is a whole ifreq on this frame, which the kernel reads and writes in the call.
        let made = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &raw mut request) };
        check(made, "make the interface")?;
        // SAFETY: a C character is a byte here; both arrays have the same size.
        let name: [u8; libc::IFNAMSIZ] = unsafe { mem::transmute(request.ifr_name) };
        let tap = Self { name };
        // A VMM opens it by its name, which one that is open here would not let it.
        // SAFETY: `file` is open, and the request takes a number.
        let kept = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETPERSIST as _, 1) };
        check(kept, "keep the interface")?;
        drop(file);
        tap.set_up()?;
        Ok(tap)
    }

    /// Its name.
    pub(super) fn name(&self) -> String {
        let name = self.name.split(|byte| *byte == 0).next();
        String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
    }

    fn set_up(&self) -> Result<(), TapError> {
        // Packets of IPv6 that the host sends by itself would be counted; a kernel may not have it.
        let ipv6 = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", self.name());
        let _ = std::fs::write(ipv6, "1");
        // Any socket will do for these requests.
        let socket =
            UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(setting("open a socket"))?;
        for (request, address, operation) in [
            (libc::SIOCSIFADDR, HOST, "set the address"),
            (libc::SIOCSIFNETMASK, MASK, "set the mask"),
        ] {
            let mut with = named(&self.name);
            with.ifr_ifru.ifru_addr = internet(address);
            // SAFETY: the socket is open; `with` is a whole ifreq on this frame, which the kernel reads in the call.
            let set = unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &raw const with) };
            check(set, operation)?;
        }
        let mut with = named(&self.name);
        with.ifr_ifru.ifru_flags = flags(libc::IFF_UP | libc::IFF_RUNNING);
        // SAFETY: as above.
        let set =
            unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const with) };
        check(set, "start the link")
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        for _ in 0..LOOKS {
            // The VMM is dead; the kernel may still be closing what it had open.
            match remove(&self.name) {
                Err(error) if error.kind() == ErrorKind::ResourceBusy => thread::sleep(LOOK),
                // There is nobody to tell of another failure.
                _ => return,
            }
        }
    }
}

fn remove(name: &[u8; libc::IFNAMSIZ]) -> io::Result<()> {
    let file = open()?;
    let mut request = named(name);
    request.ifr_ifru.ifru_flags = flags(libc::IFF_TAP | libc::IFF_NO_PI);
    // SAFETY: `file` is open; `request` is a whole ifreq on this frame, which the kernel reads and writes in the call.
    let opened = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, &raw mut request) };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `file` is open, and the request takes a number. The interface goes with its last descriptor.
    if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETPERSIST as _, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn open() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(DEVICE)
}

/// A request that names an interface.
fn named(name: &[u8; libc::IFNAMSIZ]) -> libc::ifreq {
    // SAFETY: ifreq is made of integers, for which all zeros is a value; a pointer in it is not used.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request
}

/// The flags are all of the lower 16 bits.
fn flags(flags: libc::c_int) -> libc::c_short {
    let [low, high, ..] = flags.to_le_bytes();
    libc::c_short::from_le_bytes([low, high])
}

/// An address in the form of `sockaddr_in`, whose port is zero.
fn internet(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    for (to, from) in data[2..6].iter_mut().zip(address.octets()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    libc::sockaddr {
        sa_family: libc::sa_family_t::try_from(libc::AF_INET).unwrap_or_default(),
        sa_data: data,
    }
}

fn check(result: libc::c_int, operation: &'static str) -> Result<(), TapError> {
    if result >= 0 {
        return Ok(());
    }
    let source = io::Error::last_os_error();
    match source.kind() {
        ErrorKind::PermissionDenied => Err(TapError::NotPermitted),
        _ => Err(setting(operation)(source)),
    }
}

fn setting(operation: &'static str) -> impl Fn(io::Error) -> TapError {
    move |source| TapError::Setting { operation, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_form_of_the_kernels() {
        let address = internet(Ipv4Addr::new(192, 0, 2, 1));
        assert_eq!(i32::from(address.sa_family), libc::AF_INET);
        let bytes = address
            .sa_data
            .map(|byte| u8::from_ne_bytes(byte.to_ne_bytes()));
        assert_eq!(bytes[..6], [0, 0, 192, 0, 2, 1]);
    }

    #[test]
    fn a_name_ends_at_its_zero() {
        let mut name = [0; libc::IFNAMSIZ];
        name[..7].copy_from_slice(b"vmbell3");
        // It was not made, so it must not be removed.
        let tap = mem::ManuallyDrop::new(Tap { name });
        assert_eq!(tap.name(), "vmbell3");
    }
}
