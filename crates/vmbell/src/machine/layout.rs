//! Where things lie in a guest that runs one of our programs.

use vm_memory::GuestAddress;

/// The start of RAM: the page of [`Parameters`](crate::guest::Parameters).
pub const PARAMETERS: GuestAddress = GuestAddress(stub::layout::RAM_BASE);
/// The program.
pub const CODE: GuestAddress = GuestAddress(PARAMETERS.0 + 0x1000);
/// Where the first vCPU's stack begins, growing down; each further vCPU's begins 64 KiB above.
pub const STACK_TOP: GuestAddress = GuestAddress(PARAMETERS.0 + 0x2_0000);
