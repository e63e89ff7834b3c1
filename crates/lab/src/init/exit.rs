//! The way out of L1.
#![allow(unsafe_code)]

use rustix::system::{RebootCommand, reboot};

/// Ends the machine with this code; powers it off when the device is not there.
pub fn leave(code: u8) -> ! {
    debug_exit(code);
    let _ = reboot(RebootCommand::PowerOff);
    loop {
        std::thread::park();
    }
}

#[cfg(target_arch = "x86_64")]
fn debug_exit(code: u8) {
    /// Where the board has its debug-exit device.
    const PORT: u16 = 0x501;
    // SAFETY: only changes which port accesses this process may make.
    if unsafe { libc::iopl(3) } == 0 {
        // SAFETY: the access is allowed, and the port belongs to QEMU's debug-exit device, whose
        // answer is to end the process that runs this machine.
        unsafe {
            std::arch::asm!("out dx, eax", in("dx") PORT, in("eax") u32::from(code), options(nostack));
        }
    }
}

/// Other boards have no such device: the report is all that they leave.
#[cfg(not(target_arch = "x86_64"))]
fn debug_exit(_code: u8) {}
