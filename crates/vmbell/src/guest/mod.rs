//! The guest programs: one `.S` a scenario in the folder of its architecture, the same bytes on every backend.
//!
//! A program is position-independent code that runs in 64-bit mode with identity-mapped memory and
//! uses no ring-0 state. It finds its [`Parameters`] through `rdi`, performs `count` operations,
//! measures them with the TSC, says so on [`DONE_PORT`] and starts again when it is entered again.
//! One that takes interrupts has its handler [`HANDLER`] bytes in.

mod page;
mod program;
pub mod programs;

pub use page::{DONE_PORT, HANDLER, Interrupts, Parameters, Results, VECTOR, offset};
pub use program::Program;
pub use stub::layout::HYPERCALL_PAGE;
