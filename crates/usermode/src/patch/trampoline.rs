//! The code that the engine writes for the guest: trampolines, which ring the doorbell and continue in the guest, and
//! the hypercall page.
//!
//! A trampoline is assembled on the thread that runs the vCPU. The hypercall page has one indirect jump into the stub
//! for hypercalls, and one for the return from interrupt handlers; it is assembled once for each sandbox, by the thread
//! that starts it.

use iced_x86::code_asm::{
    CodeAssembler, dx, eax, edi, edx, esi, qword_ptr, r8, r9, r10, r11, rax, rcx, rdi, rdx, rsi,
    rsp,
};
use iced_x86::{IcedError, Instruction, OpKind, Register};
use stub::layout::{
    HYPERCALL_ENTRY, HYPERCALL_PAGE, INTERRUPT_RETURN, INTERRUPT_RETURN_ENTRY, PATCH_BASE,
    PATCH_SIZE, PORT_ENTRY,
};
use stub::trampoline::{INVALID, PROLOGUE};
use vmbell_hypervisor::Error;

use super::INT3;

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

/// The code before the copied instructions: it rings the doorbell for `out`, or executes the `out` without
/// one.
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
    code.db(&PROLOGUE)?;
    let saved = [rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11];
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

/// Offset of the second jump in the page, in bytes.
const RETURN_OFFSET: usize = ((INTERRUPT_RETURN - HYPERCALL_PAGE) & 0xfff) as usize;

/// The bytes of the page, to be loaded at [`HYPERCALL_PAGE`].
pub fn hypercall_page() -> Result<Vec<u8>, Error> {
    let jump = |address, target| {
        let mut code = CodeAssembler::new(64)?;
        let mut entry = code.create_label();
        code.jmp(qword_ptr(entry))?;
        // Aligns the pointer to 8 bytes: the guest may have alignment checks on.
        code.nops_with_size(2)?;
        code.set_label(&mut entry)?;
        code.dq(&[target])?;
        code.assemble(address)
    };
    let assemble = || {
        let mut page = jump(HYPERCALL_PAGE, HYPERCALL_ENTRY)?;
        page.resize(RETURN_OFFSET, INT3);
        page.extend(jump(INTERRUPT_RETURN, INTERRUPT_RETURN_ENTRY)?);
        Ok(page)
    };
    assemble().map_err(|error: iced_x86::IcedError| Error::System {
        operation: "assemble the hypercall page",
        source: std::io::Error::other(error),
    })
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
