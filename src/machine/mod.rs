//! Puts a guest together: a program in memory, devices on buses, and the loop that answers exits.

mod board;
mod layout;
mod runner;
mod stop;

pub use board::{Machine, MachineError};
pub use layout::{CODE, PARAMETERS, STACK_TOP};
pub use runner::Runner;
pub use stop::{Deadline, Stop};
