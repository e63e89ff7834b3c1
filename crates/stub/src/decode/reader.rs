//! Reads the bytes of an instruction one at a time, and keeps its prefixes (Intel SDM volume 2, 2.1).

use super::{MAX_LEN, Register};

#[derive(Clone, Copy, Default)]
pub(super) struct Prefixes {
    pub(super) operand_size: bool,
    pub(super) address_size: bool,
    pub(super) repeat: bool,
    pub(super) segment: bool,
    pub(super) rex: u8,
}

impl Prefixes {
    /// Width in bytes of an operand whose opcode does not make it one byte.
    pub(super) fn width(self) -> u8 {
        match (self.rex & 8 != 0, self.operand_size) {
            (true, _) => 8,
            (false, true) => 2,
            (false, false) => 4,
        }
    }

    /// A byte register: without REX, numbers 4 to 7 are bits 15:8 of registers 0 to 3.
    pub(super) fn byte_register(self, number: u8) -> Register {
        if self.rex == 0 && number & 0b1100 == 0b0100 {
            Register {
                number: number & 3,
                high: true,
            }
        } else {
            Register {
                number,
                high: false,
            }
        }
    }

    pub(super) fn register(self, number: u8, width: u8) -> Register {
        if width == 1 {
            self.byte_register(number)
        } else {
            Register {
                number,
                high: false,
            }
        }
    }
}

pub(super) struct Reader<F> {
    pub(super) fetch: F,
    pub(super) len: u8,
}

impl<F: FnMut(u8) -> u8> Reader<F> {
    pub(super) fn byte(&mut self) -> Option<u8> {
        if self.len == MAX_LEN {
            return None;
        }
        let byte = (self.fetch)(self.len);
        self.len += 1;
        Some(byte)
    }

    /// A little-endian constant of `width` bytes, sign-extended.
    pub(super) fn constant(&mut self, width: u8) -> Option<u64> {
        let mut value = 0;
        for place in 0..width {
            value |= u64::from(self.byte()?) << (8 * place);
        }
        // For a width of 0 the shift does not matter: the value is 0.
        let unused = (64 - 8 * u32::from(width)) & 63;
        Some(((value << unused).cast_signed() >> unused).cast_unsigned())
    }
}
