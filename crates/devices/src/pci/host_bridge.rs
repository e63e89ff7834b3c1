//! The function in slot 0, which guests look for when they probe for a PCI bus.

use super::{BARS, FunctionInfo, Identity, PciFunction, Registers};

/// A host bridge without own registers.
#[derive(Debug)]
pub struct HostBridge;

impl PciFunction for HostBridge {
    /// Intel's 82441FX, the host bridge of QEMU's `pc` machine.
    fn info(&self) -> FunctionInfo {
        FunctionInfo {
            name: "host-bridge",
            identity: Identity {
                vendor: 0x8086,
                device: 0x1237,
                class: 0x0600,
            },
            bars: [None; BARS],
            registers: Registers::default(),
        }
    }

    fn read(&self, _bar: usize, _offset: u64, data: &mut [u8]) {
        data.fill(0xff);
    }

    fn write(&self, _bar: usize, _offset: u64, _data: &[u8]) {}

    fn moved(&self, _bar: usize, _base: Option<u64>) {}

    fn reset(&self) {}
}
