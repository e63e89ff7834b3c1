//! Decodes the instructions that the stub emulates, from their bytes.
//!
//! The stub has its own decoder because it has no heap and no panics, and because it must fetch byte by byte: bytes
//! after the instruction may be on an unmapped page. The decoder knows the integer forms of `mov`, port input and
//! output including the string forms, `hlt`, `cli`, `sti`, `rdmsr` and `wrmsr`. For everything else it returns `None`.
//! Encodings: Intel SDM volume 2, chapters 2 and 3 to 5.

mod reader;

use reader::{Prefixes, Reader, operand};

pub use reader::Memory;

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Memory <- register or constant.
    Store {
        /// 1, 2, 4 or 8 bytes.
        width: u8,
        /// The source of the value.
        source: Source,
    },
    /// Register <- memory.
    Load {
        /// Bytes read: 1, 2, 4 or 8.
        width: u8,
        /// The register that the load writes.
        target: Register,
        /// How many bytes of the register are written.
        target_width: u8,
        /// Whether the value is sign-extended.
        sign: bool,
    },
    /// `in`.
    In {
        /// 1, 2 or 4 bytes.
        width: u8,
        /// The constant port; `None` means `dx`.
        port: Option<u8>,
    },
    /// `out`.
    Out {
        /// 1, 2 or 4 bytes.
        width: u8,
        /// The constant port; `None` means `dx`.
        port: Option<u8>,
    },
    /// `ins`.
    Ins {
        /// 1, 2 or 4 bytes.
        width: u8,
        /// With a `rep` prefix: executed `rcx` times.
        repeat: bool,
    },
    /// `outs`.
    Outs {
        /// 1, 2 or 4 bytes.
        width: u8,
        /// With a `rep` prefix: executed `rcx` times.
        repeat: bool,
    },
    /// `hlt`.
    Hlt,
    /// `cli`.
    Cli,
    /// `sti`.
    Sti,
    /// `rdmsr`.
    Rdmsr,
    /// `wrmsr`.
    Wrmsr,
}

/// A general register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// 0 to 15, as encoded.
    pub number: u8,
    /// Whether the register is `ah`, `ch`, `dh` or `bh`: bits 15:8.
    pub high: bool,
}

/// The value that a store writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A register.
    Register(Register),
    /// A constant, sign-extended to 64 bits.
    Immediate(u64),
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What the instruction does.
    pub operation: Operation,
    /// The memory operand of a load or store; the default value for all other operations.
    pub memory: Memory,
    /// Length in bytes, prefixes included.
    pub len: u8,
}

/// The length of the longest x86 instruction, in bytes.
pub const MAX_LEN: u8 = 15;

/// Decodes one instruction; `None` if the stub does not emulate it. `fetch(n)` returns byte `n` of the instruction. It
/// is called with ascending `n`, and never for a byte after the end of the instruction.
pub fn decode(fetch: impl FnMut(u8) -> u8) -> Option<Instruction> {
    let mut reader = Reader { fetch, len: 0 };
    let mut prefixes = Prefixes::default();
    let opcode = loop {
        let byte = reader.byte()?;
        match byte {
            0x66 => prefixes.operand_size = true,
            0x67 => prefixes.address_size = true,
            0xf2 | 0xf3 => prefixes.repeat = true,
            0x64 | 0x65 => prefixes.segment = true,
            0x26 | 0x2e | 0x36 | 0x3e => {}
            0x40..=0x4f => {
                prefixes.rex = byte;
                // REX counts only directly before the opcode.
                let next = reader.byte()?;
                if matches!(next, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3)
                {
                    return None;
                }
                break next;
            }
            _ => break byte,
        }
    };
    let (operation, memory) = operation(opcode, prefixes, &mut reader)?;
    Some(Instruction {
        operation,
        memory,
        len: reader.len,
    })
}

fn operation<F: FnMut(u8) -> u8>(
    opcode: u8,
    prefixes: Prefixes,
    reader: &mut Reader<F>,
) -> Option<(Operation, Memory)> {
    let wide = if opcode & 1 == 0 { 1 } else { prefixes.width() };
    // Port operands are never 8 bytes wide: with REX.W the width is 4.
    let port_width = wide.min(4);
    let plain = |operation| Some((operation, Memory::default()));
    match opcode {
        0x88 | 0x89 => store_register(wide, prefixes, reader),
        0x8a | 0x8b => load(wide, wide, false, prefixes, reader),
        // `movsxd` with a 16-bit operand reads 2 bytes; no code uses it.
        0x63 if prefixes.width() != 2 => load(4, prefixes.width(), true, prefixes, reader),
        0xa0..=0xa3 => absolute(opcode, wide, prefixes, reader),
        0xc6 | 0xc7 => {
            let (number, memory) = operand(prefixes, reader)?;
            // Only /0 is `mov`; REX.R does not extend an opcode that is in ModRM.
            if number & 7 != 0 {
                return None;
            }
            let value = reader.constant(wide.min(4))?;
            Some((
                Operation::Store {
                    width: wide,
                    source: Source::Immediate(value),
                },
                memory,
            ))
        }
        0x0f => two_byte(prefixes, reader),
        0xe4 | 0xe5 => plain(Operation::In {
            width: port_width,
            port: Some(reader.byte()?),
        }),
        0xe6 | 0xe7 => plain(Operation::Out {
            width: port_width,
            port: Some(reader.byte()?),
        }),
        0xec | 0xed => plain(Operation::In {
            width: port_width,
            port: None,
        }),
        0xee | 0xef => plain(Operation::Out {
            width: port_width,
            port: None,
        }),
        // String forms with a segment override or 32-bit addresses are not emulated.
        0x6c..=0x6f if prefixes.segment || prefixes.address_size => None,
        0x6c | 0x6d => plain(Operation::Ins {
            width: port_width,
            repeat: prefixes.repeat,
        }),
        0x6e | 0x6f => plain(Operation::Outs {
            width: port_width,
            repeat: prefixes.repeat,
        }),
        0xf4 => plain(Operation::Hlt),
        0xfa => plain(Operation::Cli),
        0xfb => plain(Operation::Sti),
        _ => None,
    }
}

fn two_byte<F: FnMut(u8) -> u8>(
    prefixes: Prefixes,
    reader: &mut Reader<F>,
) -> Option<(Operation, Memory)> {
    let opcode = reader.byte()?;
    let from = if opcode & 1 == 0 { 1 } else { 2 };
    match opcode {
        0x30 => Some((Operation::Wrmsr, Memory::default())),
        0x32 => Some((Operation::Rdmsr, Memory::default())),
        0xb6 | 0xb7 => load(from, prefixes.width(), false, prefixes, reader),
        0xbe | 0xbf => load(from, prefixes.width(), true, prefixes, reader),
        // movnti
        0xc3 if !prefixes.operand_size && !prefixes.repeat => {
            store_register(prefixes.width(), prefixes, reader)
        }
        _ => None,
    }
}

fn store_register<F: FnMut(u8) -> u8>(
    width: u8,
    prefixes: Prefixes,
    reader: &mut Reader<F>,
) -> Option<(Operation, Memory)> {
    let (number, memory) = operand(prefixes, reader)?;
    let source = Source::Register(prefixes.register(number, width));
    Some((Operation::Store { width, source }, memory))
}

fn load<F: FnMut(u8) -> u8>(
    width: u8,
    target_width: u8,
    sign: bool,
    prefixes: Prefixes,
    reader: &mut Reader<F>,
) -> Option<(Operation, Memory)> {
    let (number, memory) = operand(prefixes, reader)?;
    let target = prefixes.register(number, target_width);
    Some((
        Operation::Load {
            width,
            target,
            target_width,
            sign,
        },
        memory,
    ))
}

/// A `mov` between the accumulator and an absolute address that is in the instruction.
fn absolute<F: FnMut(u8) -> u8>(
    opcode: u8,
    width: u8,
    prefixes: Prefixes,
    reader: &mut Reader<F>,
) -> Option<(Operation, Memory)> {
    let short = prefixes.address_size;
    let displacement = reader.constant(if short { 4 } else { 8 })?;
    let memory = Memory {
        displacement,
        short,
        segment: prefixes.segment,
        ..Memory::default()
    };
    let accumulator = Register {
        number: 0,
        high: false,
    };
    let operation = if opcode & 2 == 0 {
        Operation::Load {
            width,
            target: accumulator,
            target_width: width,
            sign: false,
        }
    } else {
        Operation::Store {
            width,
            source: Source::Register(accumulator),
        }
    };
    Some((operation, memory))
}
