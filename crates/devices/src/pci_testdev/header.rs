//! The header that a guest reads from either BAR while a test is selected: little-endian, with the test's name at the
//! end.

use super::test::Test;

const WIDTH: usize = 1;
const OFFSET: usize = 4;
const DATA: usize = 8;
const COUNT: usize = 12;
const NAME: usize = 16;

/// The bytes of a header; a guest reads zeros after its end.
#[derive(Clone, Debug)]
pub(super) struct Header {
    bytes: Vec<u8>,
}

impl Header {
    pub(super) fn new(test: Test) -> Self {
        let offset = u32::try_from(test.offset()).unwrap_or_default();
        let mut bytes = vec![0; NAME];
        bytes[0] = test.index;
        bytes[WIDTH] = 1;
        bytes[OFFSET..OFFSET + 4].copy_from_slice(&offset.to_le_bytes());
        bytes[DATA] = test.data();
        bytes.extend(test.name().bytes());
        Self { bytes }
    }

    /// The byte at any offset; 0 after the end.
    pub(super) fn byte(&self, offset: u64) -> u8 {
        let index = usize::try_from(offset).ok();
        index
            .and_then(|index| self.bytes.get(index))
            .copied()
            .unwrap_or_default()
    }

    pub(super) fn set_count(&mut self, count: u32) {
        self.bytes[COUNT..COUNT + 4].copy_from_slice(&count.to_le_bytes());
    }
}
