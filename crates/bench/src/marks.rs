//! Marks between runs. A hypervisor around this machine sees them among the exits that it counts.
//!
//! A mark is a write to an I/O port without a device. Each hypervisor below takes it for an exit of its own guest, so
//! even the outermost sees it, however deeply this machine is nested. After a first mark, each row in report order
//! makes a mark, a run, a mark, a run of twice as many operations, and a mark. The difference between the two runs is
//! due to the operations alone.
#![allow(unsafe_code, reason = "access to an I/O port")]

use std::{env, io};

/// The environment variable with which the lab asks `vmbell bench` for marks.
pub const VARIABLE: &str = "VMBELL_MARKS";
/// The port of the marks.
pub const PORT: u16 = 0xb0e;

/// Access to the port, for this thread and for threads that it starts later.
#[derive(Clone, Copy, Debug)]
pub struct Marks(());

impl Marks {
    /// Opens the port, which only root may do; `None` if no marks are requested.
    pub fn open() -> io::Result<Option<Self>> {
        if env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        permit()?;
        Ok(Some(Self(())))
    }

    /// Writes a mark.
    pub(crate) fn add(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `permit` succeeded, on this thread or on one that started it: threads inherit the permission (Linux
        // arch/x86/kernel/process.c, copy_thread). The instruction touches no memory, and no device is at the port.
        unsafe {
            std::arch::asm!(
                "out dx, al",
                in("dx") PORT,
                in("al") 0_u8,
                options(nomem, nostack, preserves_flags),
            );
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn permit() -> io::Result<()> {
    // SAFETY: the call takes numbers only, and gives this thread access to one port.
    match unsafe { libc::ioperm(PORT.into(), 1, 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn permit() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
