//! The message to local APICs that an MSI stands for (Intel SDM volume 3, "Message Signalled Interrupts"; Linux
//! `arch/x86/kvm/irq_comm.c`, `kvm_set_msi_irq`).

use stub::lapic::{Destination, Message, Mode};

use vmbell::irq::{IrqError, Msi};

const LOGICAL: u64 = 1 << 2;
/// The redirection hint: deliver to the vCPU with the lowest priority, whatever delivery mode the data has.
const REDIRECTION_HINT: u64 = 1 << 3;
const LEVEL: u32 = 1 << 15;

/// Decodes an MSI. Fails if local APICs do not take it.
pub fn decode(msi: Msi) -> Result<Message, IrqError> {
    msi.check()?;
    let Msi { address, data, .. } = msi;
    let bits = (data >> 8 & 7) as u8;
    let mode = Mode::from_bits(bits.into()).ok_or(IrqError::Mode { mode: bits })?;
    let is_hinted = address & REDIRECTION_HINT != 0;
    Ok(Message {
        vector: (data & 0xff) as u8,
        mode: if is_hinted {
            Mode::LowestPriority
        } else {
            mode
        },
        level: data & LEVEL != 0,
        destination: Destination::narrow((address >> 12 & 0xff) as u8, address & LOGICAL != 0),
    })
}
