//! QEMU's device edu (QEMU's `docs/specs/edu.rst`), a PCI device with a line and a message.

use std::sync::{Mutex, Weak};

use super::assigned::Model;
use crate::catalogue::NeededDevice;
use vmbell_vfio::host::{Bus, Host, HostDevice, Identity};

/// The device.
pub(super) static EDU: Model = Model {
    needed: NeededDevice {
        name: "edu",
        is_ready: || EDU.find(&Host::system()).is_ok(),
    },
    words: "QEMU's device edu (pci 1234:11e8)",
    command: "vmbell lab -- vmbell bench 'passthrough-*'",
    is: is_edu,
    prepare: |_| Ok(()),
    open: Mutex::new(Weak::new()),
};

/// The register that says what the device is, with its value.
pub(super) const IDENTITY: (u64, u32) = (0x00, 0x0100_00ed);
/// The register that reads as the inverse of what was written to it.
pub(super) const LIVENESS: u64 = 0x04;
/// `VFIO_PCI_MSI_IRQ_INDEX` of Linux's `uapi/linux/vfio.h`.
pub(super) const MSI: u32 = 1;

const VENDOR: u16 = 0x1234;
const DEVICE: u16 = 0x11e8;

fn is_edu(device: &HostDevice) -> bool {
    device.bus == Bus::Pci
        && matches!(
            device.identity,
            Identity::Pci {
                vendor: VENDOR,
                device: DEVICE,
                ..
            }
        )
}
