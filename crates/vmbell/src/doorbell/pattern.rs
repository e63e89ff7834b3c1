//! Which writes ring a doorbell: address, width and value.

use std::fmt;

use vmbell_core::table::Kind;

/// The address of a doorbell. It is exact: a guest's write to the next byte does not ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IoEventAddress {
    /// An x86 I/O port.
    Pio(u16),
    /// A guest-physical address.
    Mmio(u64),
    /// The number in the first argument of a call through the hypercall page.
    Hypercall(u64),
}

impl IoEventAddress {
    /// The port, address or hypercall number, without its address space.
    pub const fn value(self) -> u64 {
        match self {
            Self::Pio(port) => port as u64,
            Self::Mmio(value) | Self::Hypercall(value) => value,
        }
    }

    /// The address space, as the table distinguishes them.
    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Pio(_) => Kind::Pio,
            Self::Mmio(_) => Kind::Mmio,
            Self::Hypercall(_) => Kind::Hypercall,
        }
    }
}

impl fmt::Display for IoEventAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pio(port) => write!(f, "pio {port:#x}"),
            Self::Mmio(address) => write!(f, "mmio {address:#x}"),
            Self::Hypercall(number) => write!(f, "hypercall {number:#x}"),
        }
    }
}

/// The width of the writes that ring a doorbell, and the value that they must have, if any.
///
/// `None` is a wildcard: any value of that width. The type cannot express a pattern that never matches: a value wider
/// than its width, or a value without a width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Datamatch {
    /// Any write that starts at the address, of any width (KVM: length 0).
    AnyLength,
    /// Writes of one byte.
    U8(Option<u8>),
    /// Writes of two bytes.
    U16(Option<u16>),
    /// Writes of four bytes.
    U32(Option<u32>),
    /// Writes of eight bytes.
    U64(Option<u64>),
}

#[expect(
    clippy::len_without_is_empty,
    reason = "a width, and no number of elements"
)]
impl Datamatch {
    /// The width in bytes; 0 for [`Datamatch::AnyLength`].
    pub const fn len(self) -> u32 {
        match self {
            Self::AnyLength => 0,
            Self::U8(_) => 1,
            Self::U16(_) => 2,
            Self::U32(_) => 4,
            Self::U64(_) => 8,
        }
    }

    /// The value, zero-extended; `None` for a wildcard.
    pub fn value(self) -> Option<u64> {
        match self {
            Self::AnyLength => None,
            Self::U8(value) => value.map(u64::from),
            Self::U16(value) => value.map(u64::from),
            Self::U32(value) => value.map(u64::from),
            Self::U64(value) => value,
        }
    }
}

impl fmt::Display for Datamatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.len(), self.value()) {
            (0, _) => write!(f, "any length"),
            (len, None) => write!(f, "{len} bytes, any value"),
            (len, Some(value)) => write!(f, "{len} bytes, value {value:#x}"),
        }
    }
}

/// A [`Datamatch`] in the form of the kernel's ABI: the width of the writes that ring a doorbell, and the value that they
/// must have, if any.
///
/// A value wider than its width is accepted, as KVM does, and never matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The width in bytes; 0 means any width.
    pub len: u32,
    /// The value; `None` is a wildcard.
    pub value: Option<u64>,
}

impl From<Datamatch> for Pattern {
    fn from(datamatch: Datamatch) -> Self {
        Self {
            len: datamatch.len(),
            value: datamatch.value(),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.len, self.value) {
            (0, None) => f.write_str("any length"),
            (len, None) => write!(f, "length {len}"),
            (len, Some(value)) => write!(f, "length {len}, value {value:#x}"),
        }
    }
}
