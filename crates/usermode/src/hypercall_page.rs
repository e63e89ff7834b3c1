//! The hypercall page: code that the backend writes for the guest.
//!
//! The page has one indirect jump into the stub for hypercalls, and one for the return from interrupt handlers. The
//! thread that starts a sandbox writes the page.

use stub::layout::{HYPERCALL_ENTRY, INTERRUPT_RETURN_ENTRY};
use stub::patches::INT3;
use vmbell_core::addresses::{HYPERCALL_PAGE, INTERRUPT_RETURN};

/// Offset of the second jump in the page, in bytes.
const RETURN_OFFSET: usize = ((INTERRUPT_RETURN - HYPERCALL_PAGE) & 0xfff) as usize;

/// A jump to the address in the next 8 bytes.
const JUMP: [u8; 8] = [
    0xff, 0x25, 2, 0, 0, 0, // jmp [rip + 2]
    0x66, 0x90, // nop, which aligns the address: the guest may have alignment checks on
];

/// Returns the bytes of the page, to be loaded at [`HYPERCALL_PAGE`].
pub fn code() -> Vec<u8> {
    let jump = |target: u64| [JUMP, target.to_le_bytes()].concat();
    let mut page = jump(HYPERCALL_ENTRY);
    page.resize(RETURN_OFFSET, INT3);
    page.extend(jump(INTERRUPT_RETURN_ENTRY));
    page
}
