//! Message-signalled interrupts: the meaning of their address and data (Intel SDM volume 3, "Message Signalled
//! Interrupts"; Linux `arch/x86/kvm/irq_comm.c`, `kvm_set_msi_irq`).

use stub::lapic::{Destination, FIRST_VECTOR, Message, Mode};

use super::IrqError;

/// A message-signalled interrupt: the store that a device makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Msi {
    /// The address of the store, 0xfeeXXXXX; it holds the destination.
    pub address: u64,
    /// The data of the store; it holds the vector, the delivery mode and the trigger mode.
    pub data: u32,
    /// The number by which arm64's ITS knows the device; on x86-64 nobody looks at it.
    pub device: Option<u32>,
}

/// The upper bits of every MSI address.
const ADDRESS: u64 = 0xfee0_0000;
const ADDRESS_MASK: u64 = !0xf_ffff;
const LOGICAL: u64 = 1 << 2;
/// The redirection hint: deliver to the vCPU with the lowest priority, whatever delivery mode the data has.
const REDIRECTION_HINT: u64 = 1 << 3;
const LEVEL: u32 = 1 << 15;

impl Msi {
    /// An edge-triggered interrupt to the vCPU with this APIC ID, which has eight bits.
    pub fn fixed(apic_id: u8, vector: u8) -> Self {
        Self {
            address: ADDRESS | u64::from(apic_id) << 12,
            data: vector.into(),
            device: None,
        }
    }

    /// Fails unless the guest's interrupt controllers can get this message: [`message`](Self::message) says which on
    /// x86-64. On arm64 the ITS looks it up in the guest's own tables, by the device that sends it.
    pub fn check(self) -> Result<(), IrqError> {
        if cfg!(not(target_arch = "aarch64")) {
            return self.message().map(drop);
        }
        self.device.map(drop).ok_or(IrqError::NoDevice)
    }

    /// The message to local APICs. Fails if the address leads to none, or if vector or delivery mode are not
    /// those of an interrupt.
    pub fn message(self) -> Result<Message, IrqError> {
        let Self { address, data, .. } = self;
        if address & ADDRESS_MASK != ADDRESS {
            return Err(IrqError::MsiAddress { address });
        }
        let vector = (data & 0xff) as u8;
        if vector < FIRST_VECTOR {
            return Err(IrqError::Vector { vector });
        }
        let mode = Mode::from_bits(data >> 8).ok_or(IrqError::Mode {
            mode: (data >> 8 & 7) as u8,
        })?;
        let lowest = address & REDIRECTION_HINT != 0;
        Ok(Message {
            vector,
            mode: if lowest { Mode::LowestPriority } else { mode },
            level: data & LEVEL != 0,
            destination: Destination::narrow((address >> 12 & 0xff) as u8, address & LOGICAL != 0),
        })
    }
}

#[cfg(test)]
#[path = "msi_test.rs"]
mod tests;
