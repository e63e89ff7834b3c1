//! The guest programs: one or more `.S` files for each scenario, in their architecture's folder. Every backend runs the
//! same bytes.
//!
//! A program is position-independent code that runs in 64-bit mode with identity-mapped memory and uses no ring-0
//! state. Its first argument (`rdi`, `x0`) points to its [`Parameters`]. It performs `count` operations, measures them
//! with the TSC or CNTVCT_EL0, and then writes to `DONE_PORT` or, on arm64, to `DONE_ADDRESS`. It begins again when the
//! vCPU is entered again. The handler of a program that takes interrupts begins at offset [`HANDLER`]. A program runs
//! on the threads of its vCPUs.
//!
//! ```
//! use vmbell_guest::{PARAMETERS, Parameters, Results, programs};
//! use vmbell::memory::GuestMemoryMmap;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let memory: GuestMemoryMmap = GuestMemoryMmap::from_ranges(&[(PARAMETERS, 1 << 20)])?;
//! let entry = programs::mmio().load(&memory, 0)?;
//! let parameters = Parameters { count: 1000, address: 0xd000_0000, ..Parameters::default() };
//! parameters.write(&memory, PARAMETERS)?;
//! // Once a vCPU has run the program from this entry:
//! let results = Results::read(&memory, PARAMETERS)?;
//! # let _ = entry;
//! # assert_eq!(results.rings, 0);
//! # Ok(())
//! # }
//! ```

mod page;
mod program;
pub mod programs;

pub use page::{
    GicInterrupt, HANDLER, Interrupts, LpiMessage, Parameters, Results, VECTOR, offset,
};
pub use program::{CODE, PARAMETERS, Program, STACK_TOP};
pub use vmbell_core::addresses::HYPERCALL_PAGE;
// The names that `guest_programs!` needs from the architecture.
#[cfg(target_arch = "aarch64")]
#[doc(hidden)]
pub use vmbell_hypervisor::aarch64::{DONE_ADDRESS, GICC, GICD, GICR, ITS};
#[cfg(target_arch = "x86_64")]
#[doc(hidden)]
pub use vmbell_hypervisor::x86_64::{DONE_PORT, INTERRUPT_RETURN};
