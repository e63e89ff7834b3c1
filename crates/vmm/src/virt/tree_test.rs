#![cfg(not(any(loom, miri)))]

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};

use super::*;

fn description(gic: Gic) -> Description<'static> {
    Description {
        memory: 512 << 20,
        vcpus: 18,
        has_el2: false,
        gic,
        virtio: 2,
        arguments: "console=ttyS0 quiet",
        initrd: Some((0x1000_0000, 0x1234)),
    }
}

fn cells(node: FdtNode<'_>, property: &str) -> Vec<u32> {
    let property = node.property(property).unwrap();
    let cells = property.value().chunks(4);
    cells
        .map(|cell| u32::from_be_bytes(cell.try_into().unwrap()))
        .collect()
}

/// Addresses and lengths of the registers.
fn registers(node: FdtNode<'_>) -> Vec<(u64, u64)> {
    let all = node.reg().unwrap().unwrap();
    all.map(|reg| (reg.address().unwrap(), reg.size().unwrap()))
        .collect()
}

fn texts(node: FdtNode<'_>, property: &str) -> Vec<String> {
    let value = node.property(property).unwrap().value().to_vec();
    let text = String::from_utf8(value).unwrap();
    text.split_terminator('\0').map(str::to_owned).collect()
}

fn with_tree(of: &Description<'_>, look: impl FnOnce(Fdt<'_>)) {
    let blob = blob(of).unwrap();
    look(Fdt::new(&blob).unwrap());
}

#[test]
fn kernel_finds_its_memory_its_command_line_and_its_initrd() {
    with_tree(&description(Gic::V3), |tree| {
        let memory = tree.find_node("/memory@40000000").unwrap();
        assert_eq!(registers(memory), [(0x4000_0000, 512 << 20)]);
        let chosen = tree.find_node("/chosen").unwrap();
        assert_eq!(texts(chosen, "bootargs"), ["console=ttyS0 quiet"]);
        assert_eq!(cells(chosen, "linux,initrd-start"), [0, 0x1000_0000]);
        assert_eq!(cells(chosen, "linux,initrd-end"), [0, 0x1000_1234]);
        let [path] = &texts(chosen, "stdout-path")[..] else {
            panic!("one console is wanted")
        };
        let serial = tree.find_node(path).unwrap();
        assert_eq!(texts(serial, "compatible"), ["ns16550a"]);
        assert_eq!(registers(serial), [(0x0900_0000, 8)]);
        assert_eq!(cells(serial, "interrupts"), [SHARED, 4, EDGE_RISING]);
    });
    let without = Description {
        initrd: None,
        ..description(Gic::V3)
    };
    with_tree(&without, |tree| {
        let chosen = tree.find_node("/chosen").unwrap();
        assert!(chosen.property("linux,initrd-start").is_none());
    });
}

#[test]
fn cpus_have_the_affinities_that_kvm_gives_them_and_are_started_by_psci() {
    with_tree(&description(Gic::V3), |tree| {
        let cpus = tree.find_node("/cpus").unwrap();
        let cpus: Vec<_> = cpus.children().collect();
        assert_eq!(cpus.len(), 18);
        assert!(
            cpus.iter()
                .all(|cpu| texts(*cpu, "enable-method") == ["psci"])
        );
        let affinity = |index: usize| cells(cpus[index], "reg");
        assert_eq!((affinity(15), affinity(16)), (vec![15], vec![0x100]));
        assert_eq!(cpus[17].name(), "cpu@101");
        let psci = tree.find_node("/psci").unwrap();
        assert_eq!(texts(psci, "compatible"), ["arm,psci-1.0", "arm,psci-0.2"]);
        assert_eq!(texts(psci, "method"), ["hvc"]);
    });
}

#[test]
fn cpus_with_el2_have_its_interrupts_and_call_the_firmware_by_smc() {
    let with_el2 = Description {
        has_el2: true,
        ..description(Gic::V3)
    };
    let controller = format!("/interrupt-controller@{GICD:x}");
    for (of, method, timers, maintenance) in [
        (with_el2, "smc", 5, Some(vec![PRIVATE, 9, LEVEL_HIGH])),
        (description(Gic::V3), "hvc", 4, None),
    ] {
        with_tree(&of, |tree| {
            let psci = tree.find_node("/psci").unwrap();
            assert_eq!(texts(psci, "method"), [method]);
            let timer = cells(tree.find_node("/timer").unwrap(), "interrupts");
            assert_eq!(timer.len(), 3 * timers);
            let node = tree.find_node(&controller).unwrap();
            let has = node.property("interrupts");
            assert_eq!(has.map(|_| cells(node, "interrupts")), maintenance);
        });
    }
}

#[test]
fn interrupt_controllers_are_those_of_the_backend() {
    let controller = format!("/interrupt-controller@{GICD:x}");
    with_tree(&description(Gic::V3), |tree| {
        let node = tree.find_node(&controller).unwrap();
        assert_eq!(texts(node, "compatible"), ["arm,gic-v3"]);
        let redistributors = (GICR, 18 * GICR_SIZE);
        assert_eq!(registers(node), [(GICD, GICD_LEN), redistributors]);
        let its = tree.find_node(&format!("{controller}/msi-controller@{ITS:x}"));
        assert_eq!(registers(its.unwrap()), [(ITS, ITS_LEN)]);
        let parent = cells(tree.root(), "interrupt-parent");
        assert_eq!(cells(node, "phandle"), parent);
    });
    with_tree(&description(Gic::V2), |tree| {
        let node = tree.find_node(&controller).unwrap();
        assert_eq!(texts(node, "compatible"), ["arm,cortex-a15-gic"]);
        assert_eq!(registers(node), [(GICD, 0x1000), (GICC, 0x2000)]);
        assert_eq!(node.children().count(), 0);
    });
}

#[test]
fn virtio_devices_have_registers_and_an_edge_each() {
    with_tree(&description(Gic::V3), |tree| {
        let root = tree.root();
        let devices = root
            .children()
            .filter(|node| node.name().starts_with("virtio@"));
        let devices: Vec<_> = devices
            .map(|node| {
                assert_eq!(texts(node, "compatible"), ["virtio,mmio"]);
                (registers(node), cells(node, "interrupts"))
            })
            .collect();
        let expected = [0, 1].map(|index| {
            let Location { address, gsi } = virtio(index);
            let interrupt = vec![SHARED, gsi, EDGE_RISING];
            (vec![(address, register::LEN)], interrupt)
        });
        assert_eq!(devices, expected);
    });
}

#[test]
fn largest_board_has_room_for_its_tree_and_no_two_devices_clash() {
    use crate::VCPUS_MAX;
    use crate::image::TREE_LEN;
    use std::sync::Arc;
    use vmbell::bus::{Bus, BusRange};
    use vmbell_devices::DoorbellCounter;

    let arguments = "x".repeat(2047);
    let largest = Description {
        memory: IMAGE_RAM.end - IMAGE_RAM.start,
        vcpus: VCPUS_MAX,
        virtio: VIRTIO_MAX,
        arguments: &arguments,
        ..description(Gic::V3)
    };
    with_tree(&largest, |tree| {
        assert!((tree.data().len() as u64) < TREE_LEN);
        let bus = Bus::new();
        let mut pins = Vec::new();
        for node in tree.root().children() {
            if node.name().starts_with("cpus") || node.property("reg").is_none() {
                continue;
            }
            let its = node.children();
            let its = its.flat_map(registers).collect::<Vec<_>>();
            for (address, len) in registers(node).into_iter().chain(its) {
                let range = BusRange::new(address, len).unwrap();
                let device = Arc::new(DoorbellCounter::default());
                bus.insert(range, device).unwrap();
            }
            if node.property("interrupts").is_some() {
                pins.push(cells(node, "interrupts"));
            }
        }
        let all = pins.len();
        pins.sort();
        pins.dedup();
        assert_eq!((pins.len(), all), (33, 33));
    });
}

#[test]
fn command_line_with_a_zero_is_refused() {
    let broken = Description {
        arguments: "a\0b",
        ..description(Gic::V2)
    };
    assert_eq!(blob(&broken).unwrap_err(), Error::InvalidString);
}
