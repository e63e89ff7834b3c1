//! Builds a guest: a program in memory, devices on buses, and the loop that answers exits.
//!
//! A [`Machine`] with one of our programs is what the bench measures. A [`Pc`] is a machine with the devices
//! that an [`Image`] made for QEMU expects, and with several vCPUs, each on a thread of its own.

mod board;
mod image;
mod layout;
mod pc;
mod runner;
mod stop;
mod together;

pub use board::{Machine, MachineError};
pub use image::{Boot, INFORMATION, Image, ImageError};
pub use layout::{CODE, PARAMETERS, STACK_TOP};
pub use pc::{MEMORY_MAX, MEMORY_MIN, Pc, PcConfig, PcError};
pub use runner::Runner;
pub use stop::{Deadline, Stop};
