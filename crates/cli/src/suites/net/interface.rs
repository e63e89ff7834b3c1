//! Configures a network interface of this host by name (netdevice(7)): its address and flags.
#![allow(unsafe_code, reason = "ioctls that set up an interface")]

use std::fs;
use std::io;
use std::mem;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// The addresses of host and guest, and their mask. They are in a network for documentation (RFC 5737), so no real host
/// has them.
pub(super) const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(super) const GUEST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub(super) const MASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 252);

/// The device for creating taps.
pub(super) const TUN: &str = "/dev/net/tun";

/// Why an interface cannot be created or configured.
#[derive(Debug, thiserror::Error)]
pub(super) enum InterfaceError {
    /// The host has no taps.
    #[error("cannot open {TUN}: try `modprobe tun`")]
    OpenTap(#[source] io::Error),
    /// Only root may do this.
    #[error(
        "setting up a network interface needs root (CAP_NET_ADMIN): run this as root, or `vmbell lab -- vmbell bench net`"
    )]
    NotPermitted,
    /// The interface has an address, which would be lost.
    #[error("the interface {name} is in use: it has the address {address}")]
    Used {
        /// The interface's name.
        name: String,
        /// The interface's address.
        address: Ipv4Addr,
    },
    /// The interface cannot be configured.
    #[error("cannot {operation} of the interface {name}")]
    Setting {
        /// The failed operation.
        operation: &'static str,
        /// The interface's name.
        name: String,
        /// The host's error.
        source: io::Error,
    },
}

/// The name of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InterfaceName([u8; libc::IFNAMSIZ]);

impl InterfaceName {
    /// Returns `None` for an invalid name: empty, or too long with its terminating zero.
    pub(super) fn new(text: &str) -> Option<Self> {
        let mut name = [0; libc::IFNAMSIZ];
        let fits = !text.is_empty() && text.len() < name.len() && !text.contains(['\0', '/']);
        fits.then(|| {
            name[..text.len()].copy_from_slice(text.as_bytes());
            Self(name)
        })
    }

    /// A request that names the interface.
    pub(super) fn request(self) -> libc::ifreq {
        // SAFETY: ifreq is made of integers, for which all zeros is a value; a pointer in it is not used.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.0) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        request
    }

    /// The name that the kernel wrote into a request.
    pub(super) fn of(request: &libc::ifreq) -> Self {
        Self(
            request
                .ifr_name
                .map(|byte| u8::from_ne_bytes(byte.to_ne_bytes())),
        )
    }

    /// Gives the interface the host's address and brings it up, without IPv6.
    pub(super) fn set_up(self) -> Result<(), InterfaceError> {
        // IPv6 packets that the host sends unasked would be counted. A kernel may lack IPv6.
        let _ = fs::write(self.ipv6(), "1");
        self.set_address(HOST)?;
        let mut with = self.request();
        with.ifr_ifru.ifru_addr = internet(MASK);
        self.call(libc::SIOCSIFNETMASK, &mut with, "set the mask")?;
        self.set_flags(self.flags()? | flags(libc::IFF_UP))
    }

    /// The file that switches the interface's IPv6 off.
    pub(super) fn ipv6(self) -> PathBuf {
        format!("/proc/sys/net/ipv6/conf/{self}/disable_ipv6").into()
    }

    /// The interface's flags, such as whether it is up.
    pub(super) fn flags(self) -> Result<libc::c_short, InterfaceError> {
        let mut with = self.request();
        self.call(libc::SIOCGIFFLAGS, &mut with, "read the flags")?;
        // SAFETY: the kernel has written the flags, as the call says that it succeeded.
        Ok(unsafe { with.ifr_ifru.ifru_flags })
    }

    /// Sets the flags.
    pub(super) fn set_flags(self, flags: libc::c_short) -> Result<(), InterfaceError> {
        let mut with = self.request();
        with.ifr_ifru.ifru_flags = flags;
        self.call(libc::SIOCSIFFLAGS, &mut with, "set the flags")
    }

    /// Sets the address; the unspecified address removes it.
    pub(super) fn set_address(self, address: Ipv4Addr) -> Result<(), InterfaceError> {
        let mut with = self.request();
        with.ifr_ifru.ifru_addr = internet(address);
        self.call(libc::SIOCSIFADDR, &mut with, "set the address")
    }

    /// The address that the interface has.
    pub(super) fn address(self) -> Result<Option<Ipv4Addr>, InterfaceError> {
        let mut with = self.request();
        match self.call(libc::SIOCGIFADDR, &mut with, "read the address") {
            Ok(()) => {}
            Err(InterfaceError::Setting { source, .. })
                if source.kind() == io::ErrorKind::AddrNotAvailable =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        // SAFETY: the kernel has written an address of this family, as the call says that it succeeded.
        let data = unsafe { with.ifr_ifru.ifru_addr }.sa_data;
        let [_, _, a, b, c, d, ..] = data.map(|byte| u8::from_ne_bytes(byte.to_ne_bytes()));
        Ok(Some(Ipv4Addr::new(a, b, c, d)))
    }

    fn call(
        self,
        request: libc::c_ulong,
        with: &mut libc::ifreq,
        operation: &'static str,
    ) -> Result<(), InterfaceError> {
        let setting = |source| InterfaceError::Setting {
            operation,
            name: self.to_string(),
            source,
        };
        // These requests work on any socket.
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(setting)?;
        // SAFETY: the socket is open; `with` is a whole ifreq, which the kernel reads and writes in the call only.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), request as _, with) };
        check(result).map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => InterfaceError::NotPermitted,
            _ => setting(source),
        })
    }
}

impl std::fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.0.split(|byte| *byte == 0).next();
        f.write_str(&String::from_utf8_lossy(name.unwrap_or_default()))
    }
}

/// The flags, which fit into 16 bits.
pub(super) fn flags(flags: libc::c_int) -> libc::c_short {
    let [low, high, ..] = flags.to_le_bytes();
    libc::c_short::from_le_bytes([low, high])
}

/// The error of a system call.
pub(super) fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An address as a `sockaddr_in`, with port zero.
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
    fn a_name_ends_at_its_zero_and_has_room_for_it() {
        let name = InterfaceName::new("vmbell3").unwrap();
        assert_eq!(name.to_string(), "vmbell3");
        assert_eq!(InterfaceName::of(&name.request()), name);
        assert!(InterfaceName::new("fifteen-letters").is_some());
        for bad in ["", "sixteen--letters", "a/b", "a\0b"] {
            assert_eq!(InterfaceName::new(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_loopback_interface_has_its_address_and_flag_and_one_that_is_not_there_has_none() {
        let loopback = InterfaceName::new("lo").unwrap().address().unwrap();
        assert_eq!(loopback, Some(Ipv4Addr::LOCALHOST));
        let loopback = InterfaceName::new("lo").unwrap().flags().unwrap();
        assert_ne!(loopback & flags(libc::IFF_LOOPBACK), 0);
        let error = InterfaceName::new("no-such-one")
            .unwrap()
            .address()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot read the address of the interface no-such-one"
        );
    }
}
