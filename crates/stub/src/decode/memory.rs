//! Memory operands: ModRM, SIB and displacement (Intel SDM volume 2, 2.1.5 and 2.2.1).

use super::reader::{Prefixes, Reader};

/// How an instruction names its memory operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Base register.
    pub base: Option<u8>,
    /// Index register, and its scale as a power of two (0 to 3).
    pub index: Option<(u8, u8)>,
    /// Displacement, sign-extended.
    pub displacement: u64,
    /// The displacement is relative to the address of the next instruction.
    pub rip_relative: bool,
    /// The address is cut to 32 bits.
    pub short: bool,
    /// An `fs` or `gs` prefix adds a segment base, which the stub does not know.
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
        // 4 without REX.X means that there is no index: rsp cannot be one.
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
    /// The effective address, given the registers and the address of the next instruction; `None` if it depends
    /// on a segment base.
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
