//! Why a guest leaves and with which values, and that it continues as if it had not left. Ports, instruction forms and
//! model-specific registers exist only on x86-64.

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
