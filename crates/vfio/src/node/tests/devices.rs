//! Devices that the tests write.

use super::super::{
    DeviceNode, FixedClock, InterruptFormat, InterruptParent, NodeInterrupt, NodeRegion, Parent,
    Property, Trigger,
};

pub(super) const PERIPHID: [u8; 4] = [0, 4, 0x10, 0x31];

pub(super) fn parent(address_cells: u32, size_cells: u32, phandle: u32) -> Parent {
    let format = InterruptFormat::Gic;
    Parent {
        address_cells,
        size_cells,
        interrupts: Some(InterruptParent { phandle, format }),
    }
}

pub(super) fn region(address: u64, size: u64) -> NodeRegion {
    NodeRegion { address, size }
}

pub(super) fn level(number: u32) -> NodeInterrupt {
    let trigger = Trigger::of_line(true);
    NodeInterrupt { number, trigger }
}

pub(super) fn edge(number: u32) -> NodeInterrupt {
    let trigger = Trigger::of_line(false);
    NodeInterrupt { number, trigger }
}

pub(super) fn clock(frequency: Option<u32>, names: &[&str]) -> FixedClock {
    FixedClock {
        frequency,
        output_names: texts(names),
    }
}

pub(super) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

pub(super) fn property(name: &str, value: impl AsRef<[u8]>) -> Property {
    Property {
        name: name.to_owned(),
        value: value.as_ref().to_owned(),
    }
}

/// The clock of Arm's boards.
pub(super) fn clk24mhz() -> FixedClock {
    clock(Some(24_000_000), &["clk24mhz"])
}

/// QEMU's PL031, at a different address in the guest.
pub(super) fn rtc() -> DeviceNode {
    DeviceNode {
        compatible: texts(&["arm,pl031", "arm,primecell"]),
        regions: vec![region(0x8c00_0000, 0x1000)],
        interrupts: vec![level(112)],
        clocks: vec![clk24mhz()],
        properties: vec![
            property("arm,primecell-periphid", PERIPHID),
            property("clock-names", "apb_pclk\0"),
        ],
        ..DeviceNode::new("pl031")
    }
}
