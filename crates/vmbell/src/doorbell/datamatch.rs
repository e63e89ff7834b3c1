//! The width and value of the writes that ring a doorbell.

use std::fmt;

/// The width of the writes that ring a doorbell, and the value that they must have, if any.
///
/// `None` is a wildcard: any value of that width. The type cannot express what never matches: a value wider
/// than its width, or a value without a width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Datamatch {
    /// Any write that starts at the address, whatever its width (KVM: length 0).
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
