//! The host bridge in slot 0, which guests look for when they probe for a PCI bus.

use super::{BARS, Bar, Identity, PciFunction};

/// A host bridge with no registers of its own.
#[derive(Debug)]
pub struct HostBridge;

impl PciFunction for HostBridge {
    fn name(&self) -> &'static str {
        "host-bridge"
    }

    /// Intel's 82441FX, the host bridge of QEMU's `pc` machine.
    fn identity(&self) -> Identity {
        Identity {
            vendor: 0x8086,
            device: 0x1237,
            class: 0x0600,
        }
    }

    fn bars(&self) -> [Option<Bar>; BARS] {
        [None; BARS]
    }

    fn read(&self, _bar: usize, _offset: u64, data: &mut [u8]) {
        data.fill(0xff);
    }

    fn write(&self, _bar: usize, _offset: u64, _data: &[u8]) {}

    fn moved(&self, _bar: usize, _base: Option<u64>) {}

    fn reset(&self) {}
}
