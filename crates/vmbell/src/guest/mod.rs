//! The guest programs: one or more `.S` files for each scenario, in the folder of their architecture; every
//! backend runs the same bytes.
//!
//! A program is position-independent code that runs in 64-bit mode with identity-mapped memory and uses no
//! ring-0 state. `rdi` points to its [`Parameters`]. It performs `count` operations, measures them with the
//! TSC, writes to [`DONE_PORT`], and begins again when the vCPU is entered again. The handler of a program that
//! takes interrupts begins at offset [`HANDLER`]. A program runs on the threads of its vCPUs.

mod page;
mod program;
pub mod programs;

pub use page::{DONE_PORT, HANDLER, Interrupts, Parameters, Results, VECTOR, offset};
pub use program::Program;
pub use stub::layout::HYPERCALL_PAGE;
