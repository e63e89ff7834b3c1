//! The trap stub of the usermode engine, and the memory that it shares with the monitor.
//!
//! Compiled twice. As a library it gives the monitor the layout, the doorbell table's reader, the
//! decoder, the local APIC, the host's side of PV EOI and, in [`ELF`], the finished stub. With `--cfg vmbell_stub_elf` (see `build.rs`) it *is*
//! that stub: a static executable with no libc, no thread-local storage, no heap and no panics, the
//! only code of ours in the sandbox. There each vCPU thread runs the guest until it traps; the
//! kernel's signal frame is the exit.
#![no_std]
#![cfg_attr(vmbell_stub_elf, no_main)]
// The stub is machine level throughout: signal frames, system calls, memory at fixed addresses.
#![cfg_attr(vmbell_stub_elf, allow(unsafe_code))]

pub mod decode;
pub mod event;
pub mod ioapic;
pub mod lapic;
pub mod layout;
pub mod presence;
pub mod pv_eoi;
pub mod section;
mod sync;
pub mod table;

#[cfg(vmbell_stub_elf)]
mod boot;
#[cfg(vmbell_stub_elf)]
mod context;
#[cfg(vmbell_stub_elf)]
mod direct;
#[cfg(vmbell_stub_elf)]
mod doorbell;
#[cfg(vmbell_stub_elf)]
mod entry;
#[cfg(vmbell_stub_elf)]
mod fault;
#[cfg(vmbell_stub_elf)]
mod handover;
#[cfg(vmbell_stub_elf)]
mod interrupt;
#[cfg(vmbell_stub_elf)]
mod kick;
#[cfg(vmbell_stub_elf)]
mod mmio;
#[cfg(vmbell_stub_elf)]
mod percpu;
#[cfg(vmbell_stub_elf)]
mod pio;
#[cfg(vmbell_stub_elf)]
mod syscall;
#[cfg(vmbell_stub_elf)]
mod trap;

/// The stub as a static x86-64 executable, linked at [`layout::STUB_BASE`].
#[cfg(not(vmbell_stub_elf))]
pub const ELF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stub.elf"));

#[cfg(vmbell_stub_elf)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    syscall::exit_group(layout::exit_code::PANIC)
}
