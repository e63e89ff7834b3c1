//! Reads the instruction that trapped, on the vCPU's thread.

use crate::elf::entry::Context;
use crate::elf::percpu::control;
use crate::patches::Fetched;

/// Reads the instruction at `frame.rip`, just fetched by the processor. `first_byte` is its first byte, if known.
#[inline(always)]
pub fn fetch(frame: &Context, first_byte: Option<u8>) -> Fetched {
    control().patches.fetch(frame.rip, first_byte, read_code)
}

/// Returns where the instruction that began at `rip` is executed, if a jump was written over it. The processor has just
/// fetched the code at `rip`.
pub fn redirect(rip: u64) -> Option<u64> {
    control().patches.redirect(rip, read_code)
}

/// Reads a byte of the instruction that the processor has just fetched.
#[inline(always)]
fn read_code(address: u64) -> u8 {
    // SAFETY: the processor just fetched this instruction, and no byte after its end is read unless a patch is written
    // meanwhile: the monitor writes a jump only where all bytes that may then be read are mapped. A guest that rewrites
    // the instruction meanwhile can only make the stub fault, which ends the sandbox.
    unsafe { (address as *const u8).read_volatile() }
}
