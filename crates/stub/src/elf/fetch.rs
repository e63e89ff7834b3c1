//! Reads the instruction that trapped, on the vCPU's thread, while the monitor may patch it for another vCPU.
//!
//! The monitor changes the first byte of a site to `int3`, or five bytes to a jump while the sandbox is stopped, which
//! may be between the trap and the end of this function. A jump is no instruction that traps, and the other instructions
//! under it begin with an invalid opcode, so what is read of them is told from what trapped.

use crate::decode::{Instruction, decode};
use crate::elf::entry::Context;
use crate::elf::percpu::control;
use crate::layout::{PATCH_BASE, PATCH_SIZE};
use crate::sync::Ordering::SeqCst;
use crate::trampoline::{INVALID, JMP};

/// `int3`, which the monitor writes over the first byte of a patched instruction.
const INT3: u8 = 0xcc;

/// What is at the address of a trap.
pub enum Fetched {
    /// The instruction that trapped.
    Instruction(Instruction),
    /// A patch that came after the trap: the guest goes on at `frame.rip`, which leads to the instruction.
    Patched,
    /// No instruction that the stub emulates.
    Other,
}

/// Reads the instruction at `frame.rip`, which the processor has just fetched. Its first byte is `first_byte`, if that is known.
#[inline(always)]
pub fn fetch(frame: &mut Context, first_byte: Option<u8>) -> Fetched {
    let rip = frame.rip;
    let patches = &control().patches;
    let before = patches.load(SeqCst);
    let decoded = decode(|place| {
        // SAFETY: the processor just fetched this instruction, and the decoder fetches no byte after its end. A guest
        // that rewrites it meanwhile can only make the stub fault, which ends the sandbox.
        let byte = unsafe { (rip.wrapping_add(u64::from(place)) as *const u8).read_volatile() };
        match (place, first_byte) {
            (0, Some(original)) => original,
            // The map has had the original byte since before the patch.
            (0, None) if byte == INT3 => control()
                .int3_sites
                .get(rip)
                .map_or(byte, |original| (original & 0xff) as u8),
            _ => byte,
        }
    });
    if patches.load(SeqCst) != before {
        // Some bytes may be from before a jump was written and some from after it.
        return Fetched::Patched;
    }
    match decoded {
        Some(instruction) => Fetched::Instruction(instruction),
        None => match redirect(rip) {
            Some(copy) => {
                frame.rip = copy;
                Fetched::Patched
            }
            None => Fetched::Other,
        },
    }
}

/// Where the instruction that began at `rip` is executed if there is a jump over it. The processor has just fetched what is at
/// `rip`.
pub fn redirect(rip: u64) -> Option<u64> {
    let copy = control().redirects.get(rip)?;
    // SAFETY: as in `fetch`.
    let byte = unsafe { (rip as *const u8).read_volatile() };
    // The jump may have been taken back, or the guest has other code here now.
    if byte != JMP && !INVALID.contains(&byte) {
        return None;
    }
    (PATCH_BASE..PATCH_BASE + PATCH_SIZE)
        .contains(&copy)
        .then_some(copy)
}
