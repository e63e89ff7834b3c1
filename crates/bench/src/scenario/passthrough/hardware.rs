//! The two devices: edu on a PCI bus for x86-64, and a PL031 as a platform device for arm64.

use std::sync::Weak;

use super::assigned::{AssignedModel, REGISTERS};
use crate::NeededDevice;
use vmbell::sync::Mutex;
use vmbell_vfio::PassthroughError;
use vmbell_vfio::device::Device;
use vmbell_vfio::host::{Bus, Host, HostDevice, Identity};

/// QEMU's edu device (QEMU's `docs/specs/edu.rst`), a PCI device with a line and a message.
pub(super) static EDU: AssignedModel = AssignedModel {
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

/// The register that identifies the device, and its value.
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

/// The PL031 clock (Arm DDI 0224), a platform device with one level-sensitive interrupt and no DMA.
///
/// A store of the alarm's time to the load register raises the interrupt at once. The guest's program does that, and
/// the host sets the alarm's time and the mask.
pub(super) static PL031: AssignedModel = AssignedModel {
    needed: NeededDevice {
        name: "pl031",
        is_ready: || PL031.find(&Host::system()).is_ok(),
    },
    words: "a clock PL031 behind an iommu",
    command: "vmbell lab --arch aarch64 -- vmbell bench 'platform-irq-*'",
    is: is_pl031,
    prepare,
    open: Mutex::new(Weak::new()),
};

/// The time of the alarm, in seconds.
pub(super) const ALARM: u32 = 0x1000;

/// RTCMR, RTCIMSC and RTCICR.
const MATCH: u64 = 0x04;
const MASK: u64 = 0x10;
const CLEAR: u64 = 0x1c;

fn is_pl031(device: &HostDevice) -> bool {
    let is = |compatible: &String| compatible == "arm,pl031";
    matches!(device.bus, Bus::Amba | Bus::Platform)
        && matches!(&device.identity, Identity::Described { compatible, .. } if compatible.iter().any(is))
}

fn prepare(device: &Device) -> Result<(), PassthroughError> {
    for (register, value) in [(MATCH, ALARM), (CLEAR, 1), (MASK, 1)] {
        device.write(REGISTERS, register, &value.to_le_bytes())?;
    }
    Ok(())
}
