//! The place where a test's guest writes when any place will do: a port on x86-64. On arm64, which has no ports, it is
//! an address in a separate hole. Tests work with both.

use vmbell::doorbell::IoEventAddress;
use vmbell_guest::{Program, programs};
use vmbell_hypervisor::VmExit;

/// Whether bells are ports.
pub const ARE_PORTS: bool = cfg!(target_arch = "x86_64");

/// The address of bell 0 if bells are addresses.
const BASE: u64 = 0xd800_0000;

/// The address of a bell, or its port.
pub const fn number(bell: u16) -> u64 {
    if ARE_PORTS {
        bell as u64
    } else {
        BASE + bell as u64
    }
}

/// A bell as a doorbell's place.
pub const fn place(bell: u16) -> IoEventAddress {
    if ARE_PORTS {
        IoEventAddress::Pio(bell)
    } else {
        IoEventAddress::Mmio(number(bell))
    }
}

/// The program that rings a bell.
pub fn program() -> Program {
    if ARE_PORTS {
        programs::portio()
    } else {
        programs::mmio()
    }
}

/// The exit of a write to a bell.
pub fn write(len: u8, bell: u16, data: u32) -> VmExit {
    if ARE_PORTS {
        VmExit::PioOut {
            port: bell,
            len,
            data,
        }
    } else {
        VmExit::MmioWrite {
            address: number(bell),
            len,
            data: data.into(),
        }
    }
}

/// The exit of a read from a bell.
pub fn read(len: u8, bell: u16) -> VmExit {
    if ARE_PORTS {
        VmExit::PioIn { port: bell, len }
    } else {
        VmExit::MmioRead {
            address: number(bell),
            len,
        }
    }
}

/// Whether an exit is a write to this bell.
pub fn is_rung(exit: &VmExit, bell: u16) -> bool {
    match *exit {
        VmExit::PioOut { port, .. } => ARE_PORTS && port == bell,
        VmExit::MmioWrite { address, .. } => !ARE_PORTS && address == number(bell),
        _ => false,
    }
}
