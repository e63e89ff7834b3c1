//! The clock PL031 (Arm DDI 0224), a platform device with one level-sensitive interrupt and no DMA.
//!
//! A store of the alarm's time to the load register raises the interrupt at once: the guest's program does that, and the
//! host sets the time and the mask.

use std::sync::{Mutex, Weak};

use super::assigned::{Model, REGISTERS};
use crate::catalogue::NeededDevice;
use vmbell_vfio::PassthroughError;
use vmbell_vfio::device::Device;
use vmbell_vfio::host::{Bus, Host, HostDevice, Identity};

/// The device.
pub(super) static PL031: Model = Model {
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
