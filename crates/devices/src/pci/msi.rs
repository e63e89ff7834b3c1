//! The MSI capability (PCI 3.0, 6.8.1): its registers as the guest sees them, and which interrupts the guest has set up
//! through them. Runs on the thread of the vCPU that makes the access.

use super::capability::{
    CAPABILITY_MSI, CONFIG_SIZE, Capability, Found, HEADER, MSI_MASKABLE as MASKABLE,
    MSI_WIDE as WIDE,
};
use super::config::ConfigSpace;
use vmbell::irq::Msi;
use vmbell_hypervisor::IRQ_ARCH;

/// Bits of the message control register.
const ENABLE: u16 = 1 << 0;
/// Fields with the numbers of vectors that the device requests and that the guest allows, as base-2 logarithms.
const CAPABLE_SHIFT: u16 = 1;
const ENABLED_SHIFT: u16 = 4;
const LOG: u16 = 0b111;
/// The logarithm of the maximum number of vectors, 32.
const LOG_MAX: u16 = 5;

const CONTROL: usize = 2;
const ADDRESS: usize = 4;
/// The bits of the address that are not reserved.
const ADDRESS_BITS: u32 = !0b11;

/// The MSI capability of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MsiCapability {
    at: u8,
    log: u16,
    wide: bool,
    maskable: bool,
}

/// What the guest has set up in an MSI capability.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MsiState {
    /// Whether MSI is on.
    pub enabled: bool,
    /// The message of each vector that the guest allows; `None` if the vector is masked or if its address and data do
    /// not describe an interrupt.
    pub messages: Vec<Option<Msi>>,
}

impl MsiCapability {
    /// The MSI capability among those `found` in the bytes of configuration space, if there is one.
    pub fn find(config: &[u8; CONFIG_SIZE], found: &[Found]) -> Option<Self> {
        let at = found.iter().find(|found| found.id() == CAPABILITY_MSI)?;
        let control = usize::from(at.at()) + CONTROL;
        let control = u16::from_le_bytes([config[control], config[control + 1]]);
        Some(Self {
            at: at.at(),
            log: (control >> CAPABLE_SHIFT & LOG).min(LOG_MAX),
            wide: control & WIDE != 0,
            maskable: control & MASKABLE != 0,
        })
    }

    /// How many vectors the device has: 1 to 32.
    pub const fn vectors(self) -> u16 {
        1 << self.log
    }

    /// The offset of the four-byte register with the pending bits, which is not emulated; `None` if there is no such
    /// register.
    pub fn pending(self) -> Option<usize> {
        self.maskable.then_some(self.mask() + 4)
    }

    /// The capability as the guest finds it: off, and with all vectors unmasked.
    pub fn shown(self) -> Capability {
        let flag = |set, bit| if set { bit } else { 0 };
        let control =
            self.log << CAPABLE_SHIFT | flag(self.wide, WIDE) | flag(self.maskable, MASKABLE);
        let end = self.pending().unwrap_or(self.data() + 2);
        let len = end - usize::from(self.at) - HEADER;
        let (mut registers, mut writable) = (vec![0; len], vec![0; len]);
        let at = |offset: usize| offset - usize::from(self.at) - HEADER;
        put(&mut registers, 0, &control.to_le_bytes());
        let control = ENABLE | LOG << ENABLED_SHIFT;
        put(&mut writable, 0, &control.to_le_bytes());
        put(&mut writable, ADDRESS - HEADER, &ADDRESS_BITS.to_le_bytes());
        if self.wide {
            put(&mut writable, ADDRESS - HEADER + 4, &[0xff; 4]);
        }
        put(&mut writable, at(self.data()), &[0xff; 2]);
        if self.maskable {
            let bits = u32::MAX >> (32 - self.vectors());
            put(&mut writable, at(self.mask()), &bits.to_le_bytes());
        }
        Capability {
            id: CAPABILITY_MSI,
            registers,
            writable,
            own: if self.maskable { 4 } else { 0 },
        }
    }

    /// What the guest has set up.
    pub fn state(self, config: &ConfigSpace) -> MsiState {
        let at = usize::from(self.at);
        let control = config.word(at + CONTROL);
        if control & ENABLE == 0 {
            return MsiState::default();
        }
        let high = if self.wide {
            config.dword(at + ADDRESS + 4)
        } else {
            0
        };
        let address = u64::from(high) << 32 | u64::from(config.dword(at + ADDRESS));
        let data = config.word(self.data());
        let masked = if self.maskable {
            config.dword(self.mask())
        } else {
            0
        };
        // The guest must not allow more vectors than the device requests; if it does, it gets all that the device has.
        let count = 1_u16 << (control >> ENABLED_SHIFT & LOG).min(self.log);
        let message = |vector: u16| {
            let data = u32::from(data & !(count - 1) | vector);
            let msi = Msi {
                address,
                data,
                device: None,
            };
            (masked >> vector & 1 == 0 && msi.check(IRQ_ARCH).is_ok()).then_some(msi)
        };
        MsiState {
            enabled: true,
            messages: (0..count).map(message).collect(),
        }
    }

    /// The offset of the two-byte data register.
    fn data(self) -> usize {
        usize::from(self.at) + ADDRESS + if self.wide { 8 } else { 4 }
    }

    /// The offset of the four-byte mask register, if there is one.
    fn mask(self) -> usize {
        self.data() + 4
    }
}

fn put(bytes: &mut [u8], at: usize, data: &[u8]) {
    bytes[at..at + data.len()].copy_from_slice(data);
}

#[cfg(test)]
#[path = "msi_test.rs"]
mod tests;
