//! Reads little-endian numbers from bytes, and checks that there are enough.

/// The bytes from a place on; `None` if they reach beyond the end.
fn at<const N: usize>(bytes: &[u8], place: usize) -> Option<[u8; N]> {
    bytes.get(place..place.checked_add(N)?)?.try_into().ok()
}

/// Two bytes.
pub fn u16_at(bytes: &[u8], place: usize) -> Option<u16> {
    at(bytes, place).map(u16::from_le_bytes)
}

/// Four bytes.
pub fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    at(bytes, place).map(u32::from_le_bytes)
}

/// Eight bytes.
pub fn u64_at(bytes: &[u8], place: usize) -> Option<u64> {
    at(bytes, place).map(u64::from_le_bytes)
}

/// One byte.
pub fn u8_at(bytes: &[u8], place: usize) -> Option<u8> {
    bytes.get(place).copied()
}
