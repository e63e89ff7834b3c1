//! The address of a network interface.

use std::fmt;
use std::str::FromStr;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

/// The text is not the address of a single interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an address of one interface is wanted, six pairs of hexadecimal digits such as 52:54:00:12:34:56"
)]
pub struct MacError;

/// The bit of the first byte that makes an address a group (multicast) address.
const GROUP: u8 = 1;
/// The prefix of the addresses of QEMU's guests, which no manufacturer uses.
const LOCAL: [u8; 3] = [0x52, 0x54, 0x00];

impl Mac {
    /// Derives an address for an interface that was given none. It depends only on the name.
    pub fn of(name: &str) -> Self {
        // FNV-1a: in 24 bits, two names on one bridge seldom collide.
        let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        let [a, b, c, _] = hash.to_le_bytes();
        let [x, y, z] = LOCAL;
        Self([x, y, z, a, b, c])
    }
}

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or(MacError)?;
            let is_pair = part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit());
            *byte = u8::from_str_radix(part, 16)
                .ok()
                .filter(|_| is_pair)
                .ok_or(MacError)?;
        }
        if parts.next().is_some() || bytes[0] & GROUP != 0 || bytes == [0; 6] {
            return Err(MacError);
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
