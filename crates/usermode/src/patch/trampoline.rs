//! Trampolines: their addresses, and their code, which rings the doorbell and continues in the guest. Assembled
//! on the thread that runs the vCPU; a vCPU in the sandbox runs them.

use iced_x86::code_asm::{
    CodeAssembler, dx, eax, edi, edx, esi, r8, r9, r10, r11, rax, rcx, rdi, rdx, rsi, rsp,
};
use iced_x86::{IcedError, Instruction, OpKind, Register};
use stub::layout::{PATCH_BASE, PATCH_SIZE, PORT_ENTRY};

/// One-byte opcodes that are invalid in 64-bit mode (Intel SDM volume 2, table A-2).
const INVALID: [u8; 10] = [0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37];

/// The parts of the trampolines' memory that are in use, as address ranges.
#[derive(Debug, Default)]
pub struct Trampolines {
    allocated: Vec<(u64, u64)>,
}

impl Trampolines {
    /// How many trampolines there are.
    pub fn count(&self) -> usize {
        self.allocated.len()
    }

    /// Takes `room` bytes at an address whose distance from `from` has an invalid opcode in each byte for which
    /// `invalid` is true (byte 0 is the lowest). `None` if no such room is left.
    pub fn allocate(&mut self, from: u64, room: u64, invalid: impl Fn(u64) -> bool) -> Option<u64> {
        let mut target = PATCH_BASE;
        'search: while target + room <= PATCH_BASE + PATCH_SIZE {
            let distance = target.checked_sub(from)?;
            // The highest byte is tested first, because it moves the search on furthest.
            for place in (0..4).rev() {
                let byte = (distance >> (8 * place) & 0xff) as u8;
                if invalid(place) && !INVALID.contains(&byte) {
                    let unit = 1 << (8 * place);
                    target = from + (distance / unit + 1) * unit;
                    continue 'search;
                }
            }
            match self
                .allocated
                .iter()
                .find(|(start, end)| target < *end && *start < target + room)
            {
                Some((_, end)) => target = *end,
                None => {
                    self.allocated.push((target, target + room));
                    return Some(target);
                }
            }
        }
        None
    }
}

/// The code before the copied instructions: it rings the doorbell for `out`, or executes the `out` if there is
/// none.
pub fn assemble_trampoline(address: u64, out: &Instruction) -> Option<Vec<u8>> {
    assemble(address, out).ok()
}

fn assemble(address: u64, out: &Instruction) -> Result<Vec<u8>, IcedError> {
    let mut code = CodeAssembler::new(64)?;
    let (mut slow, mut end) = (code.create_label(), code.create_label());
    let width = match out.op1_register() {
        Register::AL => 1,
        Register::AX => 2,
        _ => 4,
    };
    // Leaves out the red zone (128 bytes below the stack pointer), which belongs to the code that contains the
    // `out`.
    code.lea(rsp, rsp - 128)?;
    code.pushfq()?;
    let saved = [rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11];
    for register in saved {
        code.push(register)?;
    }
    match out.op0_kind() {
        OpKind::Immediate8 => code.mov(edi, u32::from(out.immediate8()))?,
        _ => code.movzx(edi, dx)?,
    }
    code.mov(esi, width)?;
    code.mov(edx, eax)?;
    code.mov(rax, PORT_ENTRY)?;
    code.call(rax)?;
    code.test(eax, eax)?;
    code.jne(slow)?;
    for register in saved.into_iter().rev() {
        code.pop(register)?;
    }
    code.popfq()?;
    code.lea(rsp, rsp + 128)?;
    code.jmp(end)?;
    code.set_label(&mut slow)?;
    for register in saved.into_iter().rev() {
        code.pop(register)?;
    }
    code.popfq()?;
    code.lea(rsp, rsp + 128)?;
    code.add_instruction(*out)?;
    code.jmp(end)?;
    code.set_label(&mut end)?;
    code.zero_bytes()?;
    code.assemble(address)
}
