//! What differs between the processors that the checker runs on: registers at a signal, and how one instruction is stepped.

#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod processor;

pub(crate) use processor::*;
