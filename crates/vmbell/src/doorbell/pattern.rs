//! A [`Datamatch`] in the form of the kernel's ABI, in which a value may be wider than its width.

use std::fmt;

use super::{Datamatch, DoorbellError, IoEventAddress};

/// The width of the writes that ring a doorbell, and the value that they must have, if any.
///
/// A value wider than its width is accepted, as KVM does, and never matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The width in bytes; 0 means any width.
    pub len: u32,
    /// The value; `None` is a wildcard.
    pub value: Option<u64>,
}

impl Pattern {
    /// Checks whether KVM would accept the pattern at this address: the checks of `kvm_assign_ioeventfd` that
    /// need no file descriptor and no flags, in its order.
    pub(super) fn check(self, address: IoEventAddress) -> Result<(), DoorbellError> {
        let len = self.len;
        if !matches!(len, 0 | 1 | 2 | 4 | 8) {
            return Err(DoorbellError::Length { len });
        }
        // Hypercall numbers are no addresses of bytes, so they cannot run past an end.
        let ranges = !matches!(address, IoEventAddress::Hypercall(_));
        if ranges && address.value().checked_add(u64::from(len)).is_none() {
            return Err(DoorbellError::Wraps { address, len });
        }
        match (self.len, self.value) {
            (0, Some(value)) => Err(DoorbellError::MatchWithoutLength { value }),
            _ => Ok(()),
        }
    }
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
