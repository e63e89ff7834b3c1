//! The code that is specific to a processor: registers at a signal, single steps, and the return address of a hook.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod processor;

pub(crate) use processor::*;
