//! Why a guest leaves, with what, and that it continues as if it had not. Ports, the instructions' forms and the model's
//! registers are those of x86-64.

mod bare;
mod control;
mod counts;
#[cfg(target_arch = "x86_64")]
mod memory;
#[cfg(target_arch = "x86_64")]
mod ports;
#[cfg(target_arch = "x86_64")]
mod state;
mod vcpus;
