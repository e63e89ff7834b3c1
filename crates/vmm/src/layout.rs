//! Guest-physical addresses in a guest that runs one of our programs.

use vm_memory::GuestAddress;

/// The start of RAM: the page of [`Parameters`](vmbell_guest::Parameters).
pub const PARAMETERS: GuestAddress = GuestAddress(stub::layout::RAM_BASE);
/// The start of the program.
pub const CODE: GuestAddress = GuestAddress(PARAMETERS.0 + 0x1000);
/// The top of the first vCPU's stack, which grows down; the top of each further vCPU's stack is 64 KiB higher.
pub const STACK_TOP: GuestAddress = GuestAddress(PARAMETERS.0 + 0x2_0000);
