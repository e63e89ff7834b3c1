//! The stub itself: a static executable without libc, thread-local storage, heap or panics. Apart from the guest's
//! code, it is the only code in the sandbox. Each vCPU thread runs the guest until it traps; the kernel's signal frame
//! has the guest's registers.

// All of this code works on signal frames, system calls and memory at fixed addresses.
#![allow(unsafe_code)]

mod boot;
mod direct;
mod entry;
mod exit;
mod fetch;
mod interrupt;
mod kick;
mod mmio;
mod percpu;
mod pio;
mod syscall;
mod trap;

use crate::layout::exit_code;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    syscall::exit_group(exit_code::PANIC)
}
