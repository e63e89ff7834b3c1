//! Message-signalled interrupts: what an address and a word of data say (Intel SDM volume 3,
//! "Message Signalled Interrupts"; Linux `arch/x86/kvm/irq_comm.c`, `kvm_set_msi_irq`).

use stub::lapic::{Destination, FIRST_VECTOR, Message, Mode};

use super::IrqError;

/// An interrupt as a device writes it to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Msi {
    /// Where: 0xfeeXXXXX.
    pub address: u64,
    /// What.
    pub data: u32,
}

/// What all addresses begin with.
const ADDRESS: u64 = 0xfee0_0000;
const ADDRESS_MASK: u64 = !0xf_ffff;
const LOGICAL: u64 = 1 << 2;
/// To the one with the lowest priority, whatever the data says.
const REDIRECTION_HINT: u64 = 1 << 3;
const LEVEL: u32 = 1 << 15;

impl Msi {
    /// An edge to one vCPU by its APIC ID, which has eight bits.
    pub fn fixed(apic_id: u8, vector: u8) -> Self {
        Self {
            address: ADDRESS | u64::from(apic_id) << 12,
            data: vector.into(),
        }
    }

    /// What it tells local APICs. Refused if it leads to none, or to something that is no interrupt.
    pub fn message(self) -> Result<Message, IrqError> {
        let Self { address, data } = self;
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
