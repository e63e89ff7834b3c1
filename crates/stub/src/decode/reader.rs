//! Reads an instruction byte by byte: prefixes (Intel SDM volume 2, 2.1), and memory operands, which consist of ModRM,
//! SIB and displacement (2.1.5 and 2.2.1).

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
    /// Width in bytes of an operand, unless the opcode makes it one byte.
    pub(super) fn width(self) -> u8 {
        match (self.rex & 8 != 0, self.operand_size) {
            (true, _) => 8,
            (false, true) => 2,
            (false, false) => 4,
        }
    }

    /// Decodes a byte register: without REX, numbers 4 to 7 mean bits 15:8 of registers 0 to 3.
    fn byte_register(self, number: u8) -> Register {
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

    /// Reads a little-endian constant of `width` bytes and sign-extends it.
    pub(super) fn constant(&mut self, width: u8) -> Option<u64> {
        let mut value = 0;
        for place in 0..width {
            value |= u64::from(self.byte()?) << (8 * place);
        }
        // If the width is 0, the shift does not matter: the value is 0.
        let unused = (64 - 8 * u32::from(width)) & 63;
        Some(((value << unused).cast_signed() >> unused).cast_unsigned())
    }
}

/// How an instruction names its memory operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Base register.
    pub base: Option<u8>,
    /// Index register, and its scale as a power of two (0 to 3).
    pub index: Option<(u8, u8)>,
    /// Displacement, sign-extended.
    pub displacement: u64,
    /// Whether the displacement is relative to the address of the next instruction.
    pub rip_relative: bool,
    /// Whether the address is cut to 32 bits.
    pub short: bool,
    /// Whether an `fs` or `gs` prefix adds a segment base, which the stub does not know.
    pub segment: bool,
}

/// Reads ModRM, SIB and displacement, and returns ModRM's register field and the memory operand. `None` if
/// ModRM names a register instead of memory.
pub(super) fn operand<F: FnMut(u8) -> u8>(
    prefixes: Prefixes,
    reader: &mut Reader<F>,
) -> Option<(u8, Memory)> {
    let modrm = reader.byte()?;
    let (mode, low) = (modrm >> 6, modrm & 7);
    let number = (modrm >> 3 & 7) | (prefixes.rex & 4) << 1;
    let extend_base = (prefixes.rex & 1) << 3;
    let mut memory = Memory {
        short: prefixes.address_size,
        segment: prefixes.segment,
        ..Memory::default()
    };
    let mut displacement = match mode {
        0 => 0,
        1 => 1,
        2 => 4,
        _ => return None,
    };
    if low == 4 {
        let sib = reader.byte()?;
        let index = (sib >> 3 & 7) | (prefixes.rex & 2) << 2;
        // Without REX.X, 4 means "no index": `rsp` cannot be an index.
        memory.index = (index != 4).then_some((index, sib >> 6));
        if sib & 7 == 5 && mode == 0 {
            displacement = 4;
        } else {
            memory.base = Some((sib & 7) | extend_base);
        }
    } else if low == 5 && mode == 0 {
        memory.rip_relative = true;
        displacement = 4;
    } else {
        memory.base = Some(low | extend_base);
    }
    memory.displacement = reader.constant(displacement)?;
    Some((number, memory))
}

impl Memory {
    /// The effective address, given the registers and the address of the next instruction; `None` if it depends on a
    /// segment base.
    pub fn address(&self, mut register: impl FnMut(u8) -> u64, next: u64) -> Option<u64> {
        if self.segment {
            return None;
        }
        let mut address = self.displacement;
        if self.rip_relative {
            address = address.wrapping_add(next);
        }
        if let Some(base) = self.base {
            address = address.wrapping_add(register(base));
        }
        if let Some((index, scale)) = self.index {
            address = address.wrapping_add(register(index) << (scale & 3));
        }
        Some(if self.short {
            address & 0xffff_ffff
        } else {
            address
        })
    }
}
