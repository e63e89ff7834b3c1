//! Trampolines: code that the backend writes for the guest. It rings the doorbell and continues in the guest.
//!
//! A trampoline is assembled on the thread that runs the vCPU.

use iced_x86::code_asm::{
    CodeAssembler, dx, eax, edi, edx, esi, qword_ptr, r8, r9, r10, r11, rax, rcx, rdi, rdx, rsi,
    rsp,
};
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Mnemonic, OpKind, Register};
use stub::layout::{PATCH_BASE, PATCH_SIZE, PORT_ENTRY, STORE_ENTRY};
use stub::trampoline::{INVALID, PROLOGUE};
use vmbell_core::addresses::HYPERCALL_PAGE;

/// The address ranges of the trampolines' memory that are in use.
#[derive(Debug, Default)]
pub struct Trampolines {
    allocated: Vec<(u64, u64)>,
}

impl Trampolines {
    /// Returns the number of trampolines.
    pub fn count(&self) -> usize {
        self.allocated.len()
    }

    /// Reserves `room` bytes at `target`, which [`find`](Self::find) has returned.
    pub fn take(&mut self, target: u64, room: u64) {
        self.allocated.push((target, target + room));
    }

    /// Finds `room` bytes at an address whose distance from `from` has an invalid opcode in each byte for which
    /// `invalid` is true (byte 0 is the lowest). Returns `None` if there is no such address.
    pub fn find(&self, from: u64, room: u64, invalid: impl Fn(u64) -> bool) -> Option<u64> {
        let mut target = PATCH_BASE;
        'search: while target + room <= PATCH_BASE + PATCH_SIZE {
            let distance = target.checked_sub(from)?;
            // The highest byte is tested first, because it advances the search furthest.
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
                None => return Some(target),
            }
        }
        None
    }
}

/// Assembles the code before the copied instructions. It rings the doorbell that `site`, an `out` or a store, writes
/// to. If no doorbell matches, it executes `site` itself.
pub fn assemble_trampoline(address: u64, site: &Instruction) -> Option<Vec<u8>> {
    assemble(address, site).ok()
}

fn assemble(address: u64, site: &Instruction) -> Result<Vec<u8>, IcedError> {
    let mut code = CodeAssembler::new(64)?;
    let (mut slow, mut end) = (code.create_label(), code.create_label());
    code.db(&PROLOGUE)?;
    let saved = [rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11];
    let entry = if is_store(site) {
        pass_store(&mut code, site)?;
        STORE_ENTRY
    } else {
        pass_out(&mut code, site)?;
        PORT_ENTRY
    };
    code.mov(rax, entry)?;
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
    code.add_instruction(*site)?;
    code.jmp(end)?;
    code.set_label(&mut end)?;
    code.zero_bytes()?;
    code.assemble(address)
}

/// Puts the port, width and value of an `out` where the entry expects them.
fn pass_out(code: &mut CodeAssembler, out: &Instruction) -> Result<(), IcedError> {
    let width = match out.op1_register() {
        Register::AL => 1,
        Register::AX => 2,
        _ => 4,
    };
    match out.op0_kind() {
        OpKind::Immediate8 => code.mov(edi, u32::from(out.immediate8()))?,
        _ => code.movzx(edi, dx)?,
    }
    code.mov(esi, width)?;
    code.mov(edx, eax)
}

/// Returns whether an instruction is a store. It must be an `out` or have a memory operand.
pub fn is_store(site: &Instruction) -> bool {
    site.op0_kind() == OpKind::Memory
}

/// Returns whether a trampoline can replace a store. Its operands must not be the stack pointer, which the prologue has
/// moved, and it must have no 64-bit displacement and no prefix that changes what it does.
pub fn is_replaceable(store: &Instruction) -> bool {
    let is_stack = |register: Register| register.full_register() == Register::RSP;
    let is_value_of_stack = store.op1_kind() == OpKind::Register && is_stack(store.op1_register());
    let is_plain = matches!(store.mnemonic(), Mnemonic::Mov | Mnemonic::Movnti);
    let has_prefix = store.has_lock_prefix()
        || store.has_rep_prefix()
        || store.has_repne_prefix()
        || store.has_xacquire_prefix()
        || store.has_xrelease_prefix()
        || matches!(store.memory_segment(), Register::FS | Register::GS);
    // `lea` can encode an absolute address only if it fits into 32 bits.
    let is_absolute = store.memory_base() == Register::None
        && i32::try_from(store.memory_displacement64().cast_signed()).is_err();
    // The assembler uses the lowest addresses for its labels.
    let is_label =
        store.is_ip_rel_memory_operand() && store.ip_rel_memory_address() < HYPERCALL_PAGE;
    let has_good_operands =
        !is_absolute && !is_label && !is_value_of_stack && !is_stack(store.memory_base());
    is_plain && !has_prefix && has_good_operands
}

/// Puts the address, width and value of a store where the entry expects them.
fn pass_store(code: &mut CodeAssembler, store: &Instruction) -> Result<(), IcedError> {
    let width = store.memory_size().size();
    let source = store.op1_register();
    let address = if source.full_register() == Register::R11 {
        r10
    } else {
        r11
    };
    // The last instruction of the prologue has changed `r11`, after it was saved.
    code.mov(r11, qword_ptr(rsp))?;
    let operand = MemoryOperand::new(
        store.memory_base(),
        store.memory_index(),
        store.memory_index_scale(),
        store.memory_displacement64().cast_signed(),
        store.memory_displ_size(),
        false,
        Register::None,
    );
    code.add_instruction(Instruction::with2(
        Code::Lea_r64_m,
        address.into(),
        operand,
    )?)?;
    if store.op1_kind() == OpKind::Register {
        let (load, value) = match width {
            1 => (Code::Movzx_r32_rm8, Register::EDX),
            2 => (Code::Movzx_r32_rm16, Register::EDX),
            4 => (Code::Mov_r32_rm32, Register::EDX),
            _ => (Code::Mov_r64_rm64, Register::RDX),
        };
        code.add_instruction(Instruction::with2(load, value, source)?)?;
    } else {
        let unused = 64 - 8 * u32::try_from(width).unwrap_or(8);
        code.mov(rdx, store.immediate(1) << unused >> unused)?;
    }
    code.mov(rdi, address)?;
    code.mov(esi, u32::try_from(width).unwrap_or(8))
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions};
    use stub::trampoline::STEPS;

    use super::*;

    #[test]
    fn steps_are_those_of_the_prologue() {
        let mut moved = 0;
        let mut found = Vec::new();
        for instruction in Decoder::new(64, &PROLOGUE, DecoderOptions::NONE) {
            assert!(!instruction.is_invalid());
            if instruction.is_stack_instruction() || instruction.op0_register() != Register::RSP {
                found.push((instruction.ip(), moved));
                moved += u64::try_from(-instruction.stack_pointer_increment()).unwrap();
            } else {
                // The `lea`, which reads no memory.
                moved += instruction.memory_displacement64().wrapping_neg();
            }
        }
        assert_eq!(found, STEPS);
    }
}
