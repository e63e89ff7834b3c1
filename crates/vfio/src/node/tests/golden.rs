//! Trees as `dtc` compiles them from a source: `golden/README.md`.

use dtoolkit::fdt::Fdt;

use super::super::{DeviceNode, InterruptFormat, InterruptParent, Parent, sample_tree};
use super::devices::{clock, edge, level, parent, property, region, rtc, texts};

fn assert_same(devices: &[DeviceNode], parent: &Parent, golden: &[u8]) {
    let blob = sample_tree(devices, parent).unwrap();
    let source = |bytes| Fdt::new(bytes).unwrap().to_string();
    assert_eq!(source(&blob), source(golden));
}

#[test]
fn an_amba_device_is_as_dtc_makes_it() {
    let golden = include_bytes!("golden/rtc.dtb");
    assert_same(&[rtc()], &parent(2, 2, 1), golden);
}

#[test]
fn network_devices_with_several_interrupts_and_clocks_are_as_dtc_makes_them() {
    let calxeda = DeviceNode {
        compatible: texts(&["calxeda,hb-xgmac"]),
        regions: vec![region(0xc00_0000, 0x1000)],
        interrupts: vec![level(112), level(113), level(114)],
        dma_coherent: true,
        ..DeviceNode::new("ethernet")
    };
    let dma = clock(Some(250_000_000), &["dma_clk"]);
    let amd = DeviceNode {
        compatible: texts(&["amd,xgbe-seattle-v1a"]),
        regions: vec![region(0xffff_0000, 0x1_0000), region(0xe008_0000, 0x8_0000)],
        interrupts: vec![level(120), edge(121)],
        dma_coherent: true,
        clocks: vec![dma.clone(), clock(None, &[]), dma],
        properties: vec![
            property("mac-address", [2, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5]),
            property("phy-mode", "xgmii\0"),
        ],
        ..DeviceNode::new("xgmac")
    };
    let golden = include_bytes!("golden/network.dtb");
    assert_same(&[calxeda, amd], &parent(1, 1, 0x8001), golden);
}

#[test]
fn a_controller_of_two_cells_and_an_address_above_4_gib_are_as_dtc_makes_them() {
    let edu = DeviceNode {
        compatible: texts(&["vmbell,edu"]),
        regions: vec![region(0x80_0000_0000, 0x10_0000)],
        interrupts: vec![edge(5), level(6)],
        ..DeviceNode::new("edu")
    };
    let parent = Parent {
        interrupts: Some(InterruptParent {
            phandle: 1,
            format: InterruptFormat::NumberAndFlags,
        }),
        ..parent(2, 1, 1)
    };
    assert_same(&[edu], &parent, include_bytes!("golden/edges.dtb"));
}
