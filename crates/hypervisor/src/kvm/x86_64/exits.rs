//! x86-64 exits: the calls of the hypercall page as KVM forwards them.
//!
//! A call's arguments and its result are in the run page, accessed by the vCPU's thread.

use kvm_ioctls::VcpuFd;

use super::super::run_page::{Call, RunPage};
use crate::Error;

/// Returns the number and the argument of the call, which `boot/` passes as an address and as attributes.
#[allow(
    clippy::unnecessary_wraps,
    reason = "other architectures read registers"
)]
#[inline]
pub const fn decode(_: &VcpuFd, call: &Call) -> Result<[u64; 2], Error> {
    Ok([call.arguments[0] >> 12, call.arguments[2]])
}

/// Stores the return value of the call.
#[allow(
    clippy::unnecessary_wraps,
    reason = "other architectures write registers"
)]
#[inline]
pub fn answer(_: &VcpuFd, page: &RunPage, result: u64) -> Result<(), Error> {
    page.answer_hypercall(result);
    Ok(())
}

/// The kernel's count of exits for host interrupts, which are included in all exits.
pub const HOST_INTERRUPTS: Option<&str> = Some("irq_exits");
