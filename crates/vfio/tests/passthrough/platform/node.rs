//! The device-tree node of the clock for a guest, from the host's own tree, compared with that tree's files.

use std::fs;
use std::path::Path;

use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::node::{
    Choice, Copied, DeviceNode, FixedClock, InterruptFormat, InterruptParent, NodeInterrupt,
    NodeRegion, Parent, Tree, Trigger, sample_tree,
};

use super::Clock;
use testbed::HOLE;

/// Where L1 shows the clock's node.
const NODE: &str = "/proc/device-tree/pl031@9010000";
/// The line of the guest, and the phandle of its interrupt controller.
const SPI: u32 = 5;
const GIC: u32 = 0x77;

fn host_node() -> DeviceNode {
    let tree = Tree::from_folder(Path::new(Tree::HOST)).unwrap();
    let choice = Choice::Path("/pl031@9010000");
    tree.device(&choice, Copied::Common).unwrap()
}

fn node_is_what_the_host_says_of_the_clock<H: Hypervisor>(_h: &H) {
    let node = host_node();
    let file = |name: &str| fs::read(Path::new(NODE).join(name)).unwrap();
    assert_eq!(node.name, "pl031");
    assert_eq!(node.compatible, ["arm,pl031", "arm,primecell"]);
    assert_eq!(
        file("compatible"),
        (node.compatible.join("\0") + "\0").as_bytes()
    );
    // The lab edits the tree so that the device has an IOMMU group.
    assert!(node.dma_coherent);
    let clock = FixedClock {
        frequency: Some(24_000_000),
        output_names: vec!["clk24mhz".into()],
    };
    assert_eq!(node.clocks, [clock]);
    let [names] = &node.properties[..] else {
        panic!("{:?}", node.properties)
    };
    assert_eq!(names.name, "clock-names");
    assert_eq!(names.value, file("clock-names"));
}

fn node_has_the_places_of_the_guest_and_nothing_of_the_host<H: Hypervisor>(_h: &H) {
    let clock = Clock::open();
    let regions = clock.device.regions().iter().map(|region| NodeRegion {
        address: HOLE,
        size: region.size,
    });
    let interrupts = clock.device.irqs().iter().map(|irq| NodeInterrupt {
        number: SPI,
        trigger: Trigger::of_line(irq.automasked),
    });
    let node = DeviceNode {
        regions: regions.collect(),
        interrupts: interrupts.collect(),
        ..host_node()
    };
    let parent = Parent {
        address_cells: 2,
        size_cells: 2,
        interrupts: Some(InterruptParent {
            phandle: GIC,
            format: InterruptFormat::Gic,
        }),
    };
    let blob = sample_tree(&[node], &parent).unwrap();
    let tree = Fdt::new(&blob).unwrap();
    let node = tree.find_node("/platform-bus/pl031@d0000000").unwrap();
    let mut names: Vec<_> = node
        .properties()
        .map(|property| property.name().to_owned())
        .collect();
    names.sort();
    let expected = [
        "clock-names",
        "clocks",
        "compatible",
        "dma-coherent",
        "interrupt-parent",
        "interrupts",
        "reg",
    ];
    assert_eq!(names, expected);
    let cells = |name: &str| -> Vec<u32> {
        let property = node.property(name).unwrap();
        let (cells, _) = property.value().as_chunks::<4>();
        cells.iter().map(|cell| u32::from_be_bytes(*cell)).collect()
    };
    assert_eq!(cells("reg"), [0, HOLE as u32, 0, 0x1000]);
    // A shared interrupt, while it is high.
    assert_eq!(cells("interrupts"), [0, SPI, 4]);
    assert_eq!(cells("interrupt-parent"), [GIC]);
    // The guest has a separate node for the clock that drives the device.
    let clocks = Tree::from_blob(&blob).unwrap();
    let again = clocks.device(
        &Choice::Path("/platform-bus/pl031@d0000000"),
        Copied::Common,
    );
    assert_eq!(again.unwrap(), host_node());
}

testbed::on_kvm! {
    node_is_what_the_host_says_of_the_clock;
    node_has_the_places_of_the_guest_and_nothing_of_the_host;
}
