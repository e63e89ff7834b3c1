//! Interrupts, from the thread that raises them to the guest's handler and back. The x86-64-only tests need a local
//! APIC's registers, PV EOI, or the usermode backend.

#[cfg(target_arch = "x86_64")]
mod armed;
#[cfg(target_arch = "x86_64")]
mod before_halt;
mod closed;
mod delivery;
#[cfg(target_arch = "x86_64")]
mod eoi;
#[cfg(target_arch = "x86_64")]
mod forwarded;
#[cfg(target_arch = "aarch64")]
mod gic;
#[cfg(target_arch = "x86_64")]
mod halts;
mod irqfds;
mod levels;
#[cfg(target_arch = "x86_64")]
mod order;
mod resamplers;
#[cfg(target_arch = "x86_64")]
mod snapshots;
#[cfg(target_arch = "x86_64")]
mod taken_twice;
mod vcpus;
