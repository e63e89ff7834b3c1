//! Arbitrary devices, written and then read back by a different reader.

use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property as _, ToCellInt};
use proptest::prelude::*;

use super::super::{
    Choice, Copied, DeviceNode, FixedClock, InterruptFormat, InterruptParent, NodeInterrupt,
    NodeRegion, Parent, Property, Tree, Trigger, sample_tree,
};
use super::devices::{edge, level};

/// Pages in the part of the address space that a device has.
const PAGES: u64 = 0x40;

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[a-z][a-z0-9,-]{0,20}", 1..4)
}

/// Separate regions in any order, in the part of the address space that device `index` has.
fn regions(index: u64) -> impl Strategy<Value = Vec<NodeRegion>> {
    let pages: Vec<u64> = (0..PAGES).collect();
    let pages = prop::sample::subsequence(pages, 1..6).prop_shuffle();
    (pages, 1_u64..=0x1000).prop_map(move |(pages, size)| {
        let regions = pages.into_iter().map(|page| NodeRegion {
            address: (index * PAGES + page) << 12,
            size,
        });
        regions.collect()
    })
}

fn interrupts() -> impl Strategy<Value = Vec<NodeInterrupt>> {
    let numbers: Vec<u32> = (0..988).collect();
    let numbers = prop::sample::subsequence(numbers, 0..5);
    (numbers, any::<bool>()).prop_map(|(numbers, is_level)| {
        let interrupt = if is_level { level } else { edge };
        numbers.into_iter().map(interrupt).collect()
    })
}

fn clocks(index: u64) -> impl Strategy<Value = Vec<FixedClock>> {
    prop::collection::vec((0_u32..3, any::<bool>()), 0..4).prop_map(move |clocks| {
        let clocks = clocks.into_iter().map(|(number, is_named)| FixedClock {
            frequency: (number != 2).then_some(1000 + number),
            output_names: is_named
                .then(|| format!("clock-{index}-{number}"))
                .into_iter()
                .collect(),
        });
        clocks.collect()
    })
}

fn properties() -> impl Strategy<Value = Vec<Property>> {
    let values = prop::collection::vec(any::<u8>(), 0..20);
    let properties = prop::collection::btree_map("x,[a-z0-9?#._+-]{0,20}", values, 0..4);
    properties.prop_map(|properties| {
        let properties = properties.into_iter();
        properties
            .map(|(name, value)| Property { name, value })
            .collect()
    })
}

fn device(index: u64) -> impl Strategy<Value = DeviceNode> {
    (
        "[a-zA-Z][a-zA-Z0-9,._+-]{0,30}",
        texts(),
        regions(index),
        interrupts(),
        any::<bool>(),
        clocks(index),
        properties(),
    )
        .prop_map(
            |(name, compatible, regions, interrupts, dma_coherent, clocks, properties)| {
                DeviceNode {
                    name,
                    compatible,
                    regions,
                    interrupts,
                    dma_coherent,
                    clocks,
                    properties,
                }
            },
        )
}

fn parents() -> impl Strategy<Value = Parent> {
    let formats = prop::sample::select(vec![InterruptFormat::Gic, InterruptFormat::NumberAndFlags]);
    (1_u32..=2, 1_u32..=2, 1_u32..1000, formats).prop_map(
        |(address_cells, size_cells, phandle, format)| Parent {
            address_cells,
            size_cells,
            interrupts: Some(InterruptParent { phandle, format }),
        },
    )
}

/// Returns the regions of a node as the other crate reads the cells.
fn read_regions(node: &dtoolkit::fdt::FdtNode<'_>) -> Vec<NodeRegion> {
    let reg = node.reg().unwrap().unwrap();
    reg.map(|region| NodeRegion {
        address: region.address.to_int().unwrap(),
        size: region.size.to_int().unwrap(),
    })
    .collect()
}

fn read_interrupts(cells: &[u32], format: InterruptFormat) -> Vec<(u32, u32)> {
    let interrupts = cells.chunks(format.cells() as usize);
    interrupts
        .map(|cells| match *cells {
            [0, number, flags] | [number, flags] => (number, flags),
            ref other => panic!("{other:?}"),
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(devices in (device(0), device(1)), parent in parents()) {
        let devices = [devices.0, devices.1];
        let blob = sample_tree(&devices, &parent).unwrap();
        let fdt = Fdt::new(&blob).unwrap();
        let tree = Tree::from_blob(&blob).unwrap();
        let controller = parent.interrupts.unwrap();
        for device in &devices {
            let path = format!("/platform-bus/{}@{:x}", device.name, device.regions[0].address);
            let node = fdt.find_node(&path).unwrap();
            prop_assert_eq!(&read_regions(&node), &device.regions);
            let property = |name| node.property(name).map(|property| property.value().to_owned());
            let cells: Vec<u32> = property("interrupts")
                .unwrap_or_default()
                .chunks(4)
                .map(|cell| u32::from_be_bytes(cell.try_into().unwrap()))
                .collect();
            let expected: Vec<_> = device.interrupts.iter().map(|interrupt| {
                let flags = match interrupt.trigger { Trigger::EdgeRising => 1, Trigger::LevelHigh => 4 };
                (interrupt.number, flags)
            }).collect();
            prop_assert_eq!(read_interrupts(&cells, controller.format), expected);
            let phandle = controller.phandle.to_be_bytes().to_vec();
            prop_assert_eq!(
                property("interrupt-parent"),
                (!device.interrupts.is_empty()).then_some(phandle)
            );
            // Our own reader gets the rest back, including clocks through their phandles.
            let again = DeviceNode {
                regions: device.regions.clone(),
                interrupts: device.interrupts.clone(),
                ..tree.device(&Choice::Path(&path), Copied::All).unwrap()
            };
            prop_assert_eq!(&again, device);
        }
    }
}
