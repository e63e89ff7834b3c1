//! Message-signalled interrupts: stores by devices that go to the guest's interrupt controllers.

use vmbell_core::lapic::{FIRST_VECTOR, Mode};

use super::{IrqArch, IrqError};

/// A message-signalled interrupt: the store that a device makes.
///
/// On x86-64 the address has the destination, and the data have the vector, the delivery mode and the trigger mode (Intel
/// SDM volume 3, "Message Signalled Interrupts"). On arm64 the ITS looks the data up in the guest's own tables, by the
/// device that sends them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Msi {
    /// The address of the store; on x86-64 0xfeeXXXXX.
    pub address: u64,
    /// The data of the store.
    pub data: u32,
    /// The number by which arm64's ITS identifies the device; ignored on x86-64.
    pub device: Option<u32>,
}

/// The upper bits of every MSI address of x86-64.
const ADDRESS: u64 = 0xfee0_0000;
const ADDRESS_MASK: u64 = !0xf_ffff;

impl Msi {
    /// An edge-triggered interrupt of x86-64 to the vCPU with this APIC ID, which has eight bits.
    pub fn fixed(apic_id: u8, vector: u8) -> Self {
        Self {
            address: ADDRESS | u64::from(apic_id) << 12,
            data: vector.into(),
            device: None,
        }
    }

    /// Fails unless interrupt controllers of `arch` can take this message. On x86-64 the address must lead to a local
    /// APIC, and the vector and the delivery mode must be those of an interrupt. On arm64 the message must name its
    /// device.
    pub fn check(self, arch: IrqArch) -> Result<(), IrqError> {
        let Self {
            address,
            data,
            device,
        } = self;
        if arch == IrqArch::Arm64 {
            return device.map(drop).ok_or(IrqError::NoDevice);
        }
        if address & ADDRESS_MASK != ADDRESS {
            return Err(IrqError::MsiAddress { address });
        }
        let vector = (data & 0xff) as u8;
        if vector < FIRST_VECTOR {
            return Err(IrqError::Vector { vector });
        }
        let mode = (data >> 8 & 7) as u8;
        Mode::from_bits(mode.into())
            .map(drop)
            .ok_or(IrqError::Mode { mode })
    }
}

#[cfg(test)]
#[path = "msi_test.rs"]
mod tests;
