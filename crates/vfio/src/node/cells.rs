//! Numbers as the big-endian 32-bit cells of a device tree.

/// The value of a property that lists texts.
pub(super) fn texts(texts: &[String]) -> Vec<u8> {
    texts
        .iter()
        .flat_map(|text| text.bytes().chain([0]))
        .collect()
}

/// Whether a text can be in such a list.
pub(super) fn is_listable(text: &str) -> bool {
    !text.is_empty() && !text.contains('\0')
}

/// The value of a property of cells.
pub(super) fn cells(cells: &[u32]) -> Vec<u8> {
    cells.iter().flat_map(|cell| cell.to_be_bytes()).collect()
}

/// Adds a number as one cell or two.
pub(super) fn push(cells: &mut Vec<u8>, number: u64, count: u32) {
    let bytes = number.to_be_bytes();
    let first = if count == 1 { 4 } else { 0 };
    cells.extend_from_slice(&bytes[first..]);
}
