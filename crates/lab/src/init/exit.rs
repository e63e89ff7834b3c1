//! Ends L1 through the debug-exit device. Process 1 of L1 runs this.
#![allow(unsafe_code)]

use rustix::system::{RebootCommand, reboot};

/// Ends the machine with this code; powers it off if there is no debug-exit device.
pub fn leave(code: u8) -> ! {
    debug_exit(code);
    let _ = reboot(RebootCommand::PowerOff);
    loop {
        std::thread::park();
    }
}

#[cfg(target_arch = "x86_64")]
fn debug_exit(code: u8) {
    /// The port of the board's debug-exit device (`isa-debug-exit`).
    const PORT: u16 = 0x501;
    // SAFETY: only changes which port accesses this process may make.
    if unsafe { libc::iopl(3) } == 0 {
        // SAFETY: the access is allowed, and the port belongs to QEMU's debug-exit device, which
        // ends the QEMU process.
        unsafe {
            std::arch::asm!("out dx, eax", in("dx") PORT, in("eax") u32::from(code), options(nostack));
        }
    }
}

/// Other boards have no such device: the host learns the result from the report alone.
#[cfg(not(target_arch = "x86_64"))]
fn debug_exit(_code: u8) {}
