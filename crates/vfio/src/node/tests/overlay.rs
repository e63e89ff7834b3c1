//! A user's compiled overlay, as `dtc -@` makes it: `golden/overlay.dts`.

use super::super::{Choice, Copied, DeviceNode, PickError, Tree, TreeError};
use super::devices::{level, region, rtc};

const OVERLAY: &[u8] = include_bytes!("golden/overlay.dtbo");

fn device(choice: Choice<'_>) -> Result<DeviceNode, PickError> {
    let tree = Tree::from_blob(OVERLAY).unwrap();
    tree.device(&choice, Copied::All)
}

fn refused(choice: Choice<'_>) -> String {
    device(choice).unwrap_err().to_string()
}

#[test]
fn registers_and_interrupts_of_the_guest_take_the_place_of_the_overlays() {
    let mut device = device(Choice::Path("/fragment@0/__overlay__/pl031@0")).unwrap();
    device.regions.push(region(0x8c00_0000, 0x1000));
    device.interrupts.push(level(112));
    device.properties.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(device, rtc());
}

#[test]
fn the_only_device_is_found_without_a_name() {
    let golden = include_bytes!("golden/rtc.dtb");
    let tree = Tree::from_blob(golden).unwrap();
    let error = tree.device(&Choice::Only, Copied::All).unwrap_err();
    assert_eq!(
        error.to_string(),
        "several nodes of the device tree are usable as a device: /interrupt-controller, /platform-bus/pl031@8c000000"
    );
    let golden = include_bytes!("golden/single.dtbo");
    let tree = Tree::from_blob(golden).unwrap();
    let device = tree.device(&Choice::Only, Copied::All).unwrap();
    assert_eq!(device.name, "edu");
}

#[test]
fn a_node_that_is_not_there_is_an_error_that_names_it() {
    assert_eq!(
        refused(Choice::Path("/rtc")),
        "no node of the device tree is at /rtc"
    );
}

#[test]
fn a_reference_to_another_node_is_an_error() {
    for (name, property, target) in [
        ("ethernet@2", "phy-handle", "in the same overlay"),
        ("ethernet@3", "phy-handle", "board_phy"),
        ("ethernet@4", "clocks", "board_clock"),
    ] {
        let path = format!("/fragment@0/__overlay__/{name}");
        let error = refused(Choice::Path(&path));
        let expected =
            format!("the property '{property}' refers to another node ({target}), which the guest");
        assert!(error.contains(&expected), "{error}");
    }
    let tree = Tree::from_blob(OVERLAY).unwrap();
    let choice = Choice::Path("/fragment@0/__overlay__/ethernet@3");
    tree.device(&choice, Copied::Common)
        .expect("a reference that is not copied");
}

#[test]
fn what_is_no_tree_is_refused() {
    for bytes in [
        &[][..],
        b"/dts-v1/;",
        &OVERLAY[..OVERLAY.len() - 1],
        &[0; 64],
    ] {
        let error = Tree::from_blob(bytes).unwrap_err();
        assert!(matches!(error, TreeError::Blob { .. }), "{error}");
    }
    let error = Tree::from_blob(&vec![0; (4 << 20) + 1]).unwrap_err();
    assert!(error.to_string().contains("more than 4194304"), "{error}");
}
