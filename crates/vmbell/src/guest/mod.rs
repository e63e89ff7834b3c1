//! The guest programs: one or more `.S` files for each scenario, in the folder of their architecture; every
//! backend runs the same bytes.
//!
//! A program is position-independent code that runs in 64-bit mode with identity-mapped memory and uses no
//! ring-0 state. `rdi` points to its [`Parameters`]. It performs `count` operations, measures them with the
//! TSC, writes to [`DONE_PORT`], and begins again when the vCPU is entered again. The handler of a program that
//! takes interrupts begins at offset [`HANDLER`]. A program runs on the threads of its vCPUs.
//!
//! ```
//! use vmbell::guest::{Parameters, Results, programs};
//! use vmbell::memory::{Bytes, GuestAddress, GuestMemoryMmap};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (page, code) = (GuestAddress(0x10_0000), GuestAddress(0x10_1000));
//! let memory: GuestMemoryMmap = GuestMemoryMmap::from_ranges(&[(page, 1 << 20)])?;
//! memory.write_slice(programs::portio().code, code)?;
//! let parameters = Parameters { count: 1000, address: 0x510, ..Parameters::default() };
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

pub use page::{DONE_PORT, HANDLER, Interrupts, Parameters, Results, VECTOR, offset};
pub use program::Program;
pub use stub::layout::HYPERCALL_PAGE;
