//! Fixed addresses of what the host provides to guest programs. They are the same on every backend, so that a program's
//! bytes are the same too.
//!
//! ```
//! use vmbell_core::addresses::{HYPERCALL_PAGE, INTERRUPT_RETURN, PAGE, RAM_BASE};
//!
//! assert!((HYPERCALL_PAGE..HYPERCALL_PAGE + PAGE).contains(&INTERRUPT_RETURN));
//! assert!(HYPERCALL_PAGE + PAGE <= RAM_BASE);
//! ```

/// Page size, and the granularity of every mapping.
pub const PAGE: u64 = 4096;
/// The hypercall page: the lowest address that an unprivileged user may map (`vm.mmap_min_addr`).
pub const HYPERCALL_PAGE: u64 = 0x1_0000;
/// Address in the hypercall page to which an interrupt handler jumps in order to return, with `rsp` pointing to the
/// interrupt frame.
pub const INTERRUPT_RETURN: u64 = HYPERCALL_PAGE + 0x40;
/// Guest RAM starts here.
pub const RAM_BASE: u64 = 0x10_0000;
