//! The guest of a bare loop on x86-64.
#![allow(unsafe_code)]

use super::super::bare::COUNT;
use super::super::code::guest_code;
use crate::Error;
use crate::measure::BareExit;

/// The port and the address that the guest writes to.
const PORT: u32 = 0xc050;
pub const ADDRESS: u64 = 0xd000_0050;

guest_code! {
    fn output = vmbell_bare_output..vmbell_bare_output_end {
        "mov edx, {port}",
        "2:",
        "out dx, eax",
        "jmp 2b",
        ; port = const PORT,
    }
}

guest_code! {
    fn store = vmbell_bare_store..vmbell_bare_store_end {
        "mov edx, {address}",
        "2:",
        "mov [rdx], eax",
        "jmp 2b",
        ; address = const ADDRESS,
    }
}

guest_code! {
    /// Reads how often to ring, rings, and leaves at the port.
    fn ring = vmbell_bare_ring..vmbell_bare_ring_end {
        "lea rbx, [rip + vmbell_bare_ring + {count}]",
        "2:",
        "mov rcx, [rbx]",
        "mov edx, {address}",
        "3:",
        "mov [rdx], eax",
        "dec rcx",
        "jnz 3b",
        "mov edx, {port}",
        "out dx, eax",
        "jmp 2b",
        ; count = const COUNT,
        address = const ADDRESS,
        port = const PORT,
    }
}

/// The code of a guest that makes these exits forever; it runs at any address. One that rings leaves at the port when it
/// has rung [`COUNT`] times.
#[allow(clippy::unnecessary_wraps, reason = "arm64 has no ports")]
pub fn code(exit: BareExit) -> Result<Vec<u8>, Error> {
    let code = match exit {
        BareExit::Pio => output(),
        BareExit::Mmio => store(),
        BareExit::Ioeventfd => ring(),
    };
    Ok(code.to_vec())
}
