//! Which boards there are, and the choice of one.

use super::{AARCH64, AARCH64_NESTING, LabBoard, X86_64};
use crate::arch::Arch;

impl LabBoard {
    /// All boards.
    pub const ALL: [Self; 2] = [X86_64, AARCH64];

    /// Returns the board for the architecture of this name.
    pub fn of(arch: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|board| board.arch.name == arch)
    }

    /// Returns the board for this architecture whose KVM offers virtualization to its guests.
    pub fn nesting(self) -> Self {
        match self.arch {
            Arch::AARCH64 => AARCH64_NESTING,
            _ => self,
        }
    }

    /// Returns whether programs for this process's architecture run on the board.
    pub fn is_native(&self) -> bool {
        self.arch.name == std::env::consts::ARCH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_l1_has_the_drivers_of_its_ports() {
        for board in LabBoard::ALL.into_iter().chain([AARCH64_NESTING]) {
            for driver in ["virtio_pci", "virtio_console"] {
                assert!(
                    board.modules.contains(&driver),
                    "{}: {driver}",
                    board.arch.name
                );
            }
        }
    }

    #[test]
    fn each_pci_device_is_in_the_slot_that_its_address_names() {
        for device in X86_64.devices {
            let addresses = [Some(device.address), device.interface];
            let slots = addresses.into_iter().flatten().map(|address| {
                let slot = address.strip_prefix("0000:00:0").unwrap();
                slot.strip_suffix(".0").unwrap()
            });
            let words = device.arguments.iter();
            let fixed = words.filter_map(|word| word.split_once(",addr="));
            let fixed = fixed.map(|(_, rest)| rest.split(',').next().unwrap());
            assert!(slots.eq(fixed), "{device:?}");
        }
    }
}
