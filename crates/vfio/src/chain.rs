//! The chain of capabilities after the answer of a VFIO info request (Linux `uapi/linux/vfio.h`,
//! `struct vfio_info_cap_header`). A device's driver writes it, so every offset is checked.

/// Bytes of a capability's header: id and version of 2 bytes each, and the offset of the next capability.
const HEADER: usize = 8;

/// A capability of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability<'b> {
    /// The capability's ID.
    pub id: u16,
    /// All bytes after its header. The answer does not say where the capability ends.
    pub body: &'b [u8],
}

/// A malformed chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// A capability is not between the end of the structure and the end of the answer.
    #[error("a capability at offset {offset} is outside of the answer, which has {len} bytes")]
    Outside {
        /// The capability's offset.
        offset: u32,
        /// The length of the answer.
        len: usize,
    },
    /// A capability is not after the one that leads to it, so the chain might never end.
    #[error("the capability at offset {offset} leads back to offset {next}")]
    Backwards {
        /// The offset of the capability.
        offset: u32,
        /// Where the capability leads.
        next: u32,
    },
}

/// Returns the capabilities of an `answer` that begins with a structure of `fixed` bytes; `first` is the offset of the
/// first capability, or 0.
pub fn capabilities(
    answer: &[u8],
    fixed: usize,
    first: u32,
) -> Result<Vec<Capability<'_>>, ChainError> {
    let mut found = Vec::new();
    let mut offset = first;
    while offset != 0 {
        let outside = ChainError::Outside {
            offset,
            len: answer.len(),
        };
        let at = offset as usize;
        let bytes = answer.get(at..).filter(|_| at >= fixed).ok_or(outside)?;
        let (header, body) = bytes.split_at_checked(HEADER).ok_or(outside)?;
        found.push(Capability {
            id: u16::from_ne_bytes([header[0], header[1]]),
            body,
        });
        let next = word32(header, 4).unwrap_or_default();
        if next != 0 && next <= offset {
            return Err(ChainError::Backwards { offset, next });
        }
        offset = next;
    }
    Ok(found)
}

/// Reads the 32-bit word at `offset`.
pub(super) fn word32(bytes: &[u8], offset: usize) -> Option<u32> {
    let word = bytes.get(offset..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*word))
}

/// Reads the 64-bit word at `offset`.
pub(super) fn word64(bytes: &[u8], offset: usize) -> Option<u64> {
    let word = bytes.get(offset..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*word))
}

/// Reads the pairs of 64-bit words in a capability's body: their number in the first 32 bits, 4 unused bytes, then the
/// pairs. `None` if the body is shorter than they need.
pub(super) fn pairs(body: &[u8]) -> Option<Vec<(u64, u64)>> {
    let count = word32(body, 0)? as usize;
    let bytes = body.get(8..)?.get(..count.checked_mul(16)?)?;
    let pairs = bytes.chunks_exact(16);
    pairs
        .map(|pair| Some((word64(pair, 0)?, word64(pair, 8)?)))
        .collect()
}
