//! The devices that answer a vCPU's exits: its thread's reader of each bus, and the work that devices have left.
//!
//! [`Vcpu::serve`](super::Vcpu::serve) runs the guest with them. Used on the thread of the vCPU.

use vmbell::bus::{Backlog, BusReader};

use super::{VmEntry, VmExit};

/// The buses of a machine, as the thread of one vCPU reads them.
#[derive(Debug)]
pub struct Buses {
    /// The devices on I/O ports.
    pub pio: BusReader,
    /// The devices on guest-physical addresses.
    pub mmio: BusReader,
    /// The devices on hypercall numbers, which are written the call's argument.
    pub hypercall: BusReader,
    /// Work that devices have left to the exit loops.
    pub backlog: Backlog,
}

impl Buses {
    /// Answers an exit. `None` if no device does, or if it is not an access.
    #[inline(always)]
    pub fn answer(&mut self, exit: &VmExit) -> Option<VmEntry> {
        match *exit {
            VmExit::PioOut { port, len, data } => {
                let written = self.pio.write(port.into(), bytes(&data.to_le_bytes(), len));
                written.then_some(VmEntry::Resume)
            }
            VmExit::PioIn { port, len } => read(&mut self.pio, port.into(), len),
            VmExit::MmioWrite { address, len, data } => {
                let written = self.mmio.write(address, bytes(&data.to_le_bytes(), len));
                written.then_some(VmEntry::Resume)
            }
            VmExit::MmioRead { address, len } => read(&mut self.mmio, address, len),
            VmExit::Hypercall { number, argument } => {
                let written = self.hypercall.write(number, &argument.to_le_bytes());
                written.then_some(VmEntry::Data(0))
            }
            _ => None,
        }
    }
}

/// The bytes of an access. No backend gives a length greater than that of the value; a greater one is cut.
#[inline]
fn bytes(value: &[u8], len: u8) -> &[u8] {
    &value[..usize::from(len).min(value.len())]
}

#[inline]
fn read(bus: &mut BusReader, address: u64, len: u8) -> Option<VmEntry> {
    let mut value = [0xff; 8];
    let len = usize::from(len).min(value.len());
    bus.read(address, &mut value[..len])
        .then(|| VmEntry::Data(u64::from_le_bytes(value)))
}

#[cfg(test)]
#[path = "buses_test.rs"]
mod tests;
