//! The guest programs: one or more `.S` files for each scenario, in the folder of their architecture; every
//! backend runs the same bytes.
//!
//! A program is position-independent code that runs in 64-bit mode with identity-mapped memory and uses no
//! ring-0 state. Its first argument (`rdi`, `x0`) points to its [`Parameters`]. It performs `count` operations,
//! measures them with the TSC or CNTVCT_EL0, writes to [`DONE_PORT`] or, on arm64, to [`DONE_ADDRESS`], and begins
//! again when the vCPU is entered again. The handler of a program that takes interrupts begins at offset
//! [`HANDLER`]. A program runs on the threads of its vCPUs.
//!
//! ```
//! use vmbell_guest::{Parameters, Results, programs};
//! use vmbell::memory::{Bytes, GuestAddress, GuestMemoryMmap};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (page, code) = (GuestAddress(0x10_0000), GuestAddress(0x10_1000));
//! let memory: GuestMemoryMmap = GuestMemoryMmap::from_ranges(&[(page, 1 << 20)])?;
//! memory.write_slice(programs::mmio().code, code)?;
//! let parameters = Parameters { count: 1000, address: 0xd000_0000, ..Parameters::default() };
//! parameters.write(&memory, page)?;
//! // Once a vCPU has run the program:
//! let results = Results::read(&memory, page)?;
//! # assert_eq!(results.rings, 0);
//! # Ok(())
//! # }
//! ```

mod page;
mod program;
pub mod programs;

pub use page::{
    DONE_ADDRESS, DONE_PORT, GicInterrupt, HANDLER, Interrupts, LpiMessage, Parameters, Results,
    VECTOR, done, offset,
};
pub use program::Program;
pub use stub::layout::HYPERCALL_PAGE;
// What `guest_programs!` names of the architecture.
#[cfg(target_arch = "aarch64")]
#[doc(hidden)]
pub use vmbell_hypervisor::aarch64::{GICC, GICD, GICR, ITS};
#[cfg(target_arch = "x86_64")]
#[doc(hidden)]
pub use vmbell_hypervisor::x86_64::INTERRUPT_RETURN;
