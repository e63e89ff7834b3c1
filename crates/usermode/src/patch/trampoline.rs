//! Trampolines: code that the backend writes for the guest. It rings the doorbell and continues in the guest.
//!
//! A trampoline is assembled on the thread that runs the vCPU.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, IcedError, Instruction, InstructionBlock,
    MemoryOperand, Mnemonic, OpKind, Register,
};
use stub::layout::{PATCH_BASE, PATCH_SIZE, PORT_ENTRY, STORE_ENTRY};
use stub::trampoline::{INVALID, PROLOGUE};

/// The labels of a trampoline, which are addresses that no store reaches: those near guest memory are much lower or, if
/// they wrap, higher.
const SLOW: u64 = 1 << 63;
const END: u64 = SLOW + 1;

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
    let (entry, mut code) = if is_store(site) {
        (STORE_ENTRY, pass_store(site)?)
    } else {
        (PORT_ENTRY, pass_out(site)?)
    };
    let at = |label, mut instruction: Instruction| {
        instruction.set_ip(label);
        instruction
    };
    let restore = restore()?;
    let to_end = Instruction::with_branch(Code::Jmp_rel8_64, END)?;
    code.extend([
        Instruction::with2(Code::Mov_r64_imm64, Register::RAX, entry)?,
        Instruction::with1(Code::Call_rm64, Register::RAX)?,
        Instruction::with2(Code::Test_rm32_r32, Register::EAX, Register::EAX)?,
        Instruction::with_branch(Code::Jne_rel8_64, SLOW)?,
    ]);
    code.extend(&restore);
    code.extend([to_end, at(SLOW, restore[0])]);
    code.extend(&restore[1..]);
    // The site's own address is no label: a store to its own bytes must not become a store to the copy.
    code.extend([at(0, *site), to_end]);
    code.push(at(END, Instruction::with(Code::Zero_bytes)));
    let block = InstructionBlock::new(&code, address + PROLOGUE.len() as u64);
    let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE)?;
    Ok([&PROLOGUE[..], &encoded.code_buffer].concat())
}

/// Restores the registers that the prologue has saved.
fn restore() -> Result<Vec<Instruction>, IcedError> {
    use Register::{R8, R9, R10, R11, RAX, RCX, RDI, RDX, RSI, RSP};
    let pop = |register| Instruction::with1(Code::Pop_r64, register);
    let pops = [R11, R10, R9, R8, RDI, RSI, RDX, RCX, RAX].map(pop);
    let popfq = Instruction::with(Code::Popfq);
    let red_zone = MemoryOperand::with_base_displ(RSP, 128);
    let lea = Instruction::with2(Code::Lea_r64_m, RSP, red_zone);
    pops.into_iter().chain([Ok(popfq), lea]).collect()
}

/// Puts the port, width and value of an `out` where the entry expects them.
fn pass_out(out: &Instruction) -> Result<Vec<Instruction>, IcedError> {
    let width = match out.op1_register() {
        Register::AL => 1,
        Register::AX => 2,
        _ => 4,
    };
    let port = match out.op0_kind() {
        OpKind::Immediate8 => {
            let port = u32::from(out.immediate8());
            Instruction::with2(Code::Mov_r32_imm32, Register::EDI, port)
        }
        _ => Instruction::with2(Code::Movzx_r32_rm16, Register::EDI, Register::DX),
    };
    Ok(vec![
        port?,
        Instruction::with2(Code::Mov_r32_imm32, Register::ESI, width)?,
        Instruction::with2(Code::Mov_rm32_r32, Register::EDX, Register::EAX)?,
    ])
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
    let has_good_operands = !is_absolute && !is_value_of_stack && !is_stack(store.memory_base());
    is_plain && !has_prefix && has_good_operands
}

/// Puts the address, width and value of a store where the entry expects them.
fn pass_store(store: &Instruction) -> Result<Vec<Instruction>, IcedError> {
    let width = u32::try_from(store.memory_size().size()).unwrap_or(8);
    let source = store.op1_register();
    let address = if source.full_register() == Register::R11 {
        Register::R10
    } else {
        Register::R11
    };
    let operand = MemoryOperand::new(
        store.memory_base(),
        store.memory_index(),
        store.memory_index_scale(),
        store.memory_displacement64().cast_signed(),
        store.memory_displ_size(),
        false,
        Register::None,
    );
    let value = if store.op1_kind() == OpKind::Register {
        let (load, value) = match width {
            1 => (Code::Movzx_r32_rm8, Register::EDX),
            2 => (Code::Movzx_r32_rm16, Register::EDX),
            4 => (Code::Mov_r32_rm32, Register::EDX),
            _ => (Code::Mov_r64_rm64, Register::RDX),
        };
        Instruction::with2(load, value, source)
    } else {
        let unused = 64 - 8 * width;
        let value = store.immediate(1) << unused >> unused;
        Instruction::with2(Code::Mov_r64_imm64, Register::RDX, value)
    };
    // The last instruction of the prologue has changed `r11`, after it was saved.
    let saved = MemoryOperand::with_base(Register::RSP);
    Ok(vec![
        Instruction::with2(Code::Mov_r64_rm64, Register::R11, saved)?,
        Instruction::with2(Code::Lea_r64_m, address, operand)?,
        value?,
        Instruction::with2(Code::Mov_rm64_r64, Register::RDI, address)?,
        Instruction::with2(Code::Mov_r32_imm32, Register::ESI, width)?,
    ])
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

    #[test]
    fn a_store_relative_to_its_own_address_keeps_its_target() {
        const SITE: u64 = 0x20_0000;
        // Among them the store's own bytes, and addresses that could be taken for labels.
        for target in [0, 1, 2, SITE, SITE + 5, SITE + 6, 0x5000_0000] {
            let distance = target.wrapping_sub(SITE + 6).to_le_bytes();
            let mut bytes = [0x88, 0x05, 0, 0, 0, 0]; // mov [rip + distance], al
            bytes[2..].copy_from_slice(&distance[..4]);
            let store = Decoder::with_ip(64, &bytes, SITE, DecoderOptions::NONE).decode();
            assert!(is_replaceable(&store));
            let code = assemble_trampoline(PATCH_BASE, &store).unwrap();
            let targets: Vec<u64> = Decoder::with_ip(64, &code, PATCH_BASE, DecoderOptions::NONE)
                .into_iter()
                .filter(Instruction::is_ip_rel_memory_operand)
                .map(|instruction| instruction.ip_rel_memory_address())
                .collect();
            assert_eq!(targets, [target; 2]);
        }
    }
}
