//! A compiled overlay of a user's, as `dtc -@` makes it: `golden/overlay.dts`.

use super::super::{Choice, Copied, SourceError, Template, Tree};
use super::devices::{level, region, rtc};

const OVERLAY: &[u8] = include_bytes!("golden/overlay.dtbo");

fn template(choice: Choice<'_>) -> Result<Template, SourceError> {
    let tree = Tree::from_blob(OVERLAY).unwrap();
    tree.template(&choice, Copied::All)
}

fn refused(choice: Choice<'_>) -> String {
    template(choice).unwrap_err().to_string()
}

#[test]
fn registers_and_interrupts_of_the_guest_take_the_place_of_the_overlays() {
    for choice in [
        Choice::Symbol("rtc"),
        Choice::Compatible("arm,primecell"),
        Choice::Path("/fragment@0/__overlay__/pl031@0"),
    ] {
        let template = template(choice).unwrap();
        let mut device = template.device(vec![region(0x8c00_0000, 0x1000)], vec![level(112)]);
        device.properties.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(device, rtc());
    }
}

#[test]
fn the_only_device_is_found_without_a_name() {
    let golden = include_bytes!("golden/rtc.dtb");
    let tree = Tree::from_blob(golden).unwrap();
    let error = tree.template(&Choice::Only, Copied::All).unwrap_err();
    assert_eq!(
        error.to_string(),
        "several nodes of the device tree are usable as a device: /interrupt-controller, /platform-bus/pl031@8c000000"
    );
    let golden = include_bytes!("golden/single.dtbo");
    let tree = Tree::from_blob(golden).unwrap();
    let template = tree.template(&Choice::Only, Copied::All).unwrap();
    assert_eq!(template.name, "edu");
}

#[test]
fn none_or_several_nodes_are_an_error_that_names_them() {
    assert_eq!(
        refused(Choice::Symbol("rtc1")),
        "no node of the device tree is labelled rtc1"
    );
    assert_eq!(
        refused(Choice::Compatible("vmbell,twin")),
        "several nodes of the device tree are compatible with vmbell,twin: /fragment@0/__overlay__/serial@5, /fragment@0/__overlay__/serial@6"
    );
}

#[test]
fn a_reference_to_another_node_is_an_error() {
    for (label, property, target) in [
        ("near", "phy-handle", "in the same overlay"),
        ("far", "phy-handle", "board_phy"),
        ("pll", "clocks", "board_clock"),
    ] {
        let error = refused(Choice::Symbol(label));
        let expected =
            format!("the property '{property}' refers to another node ({target}), which the guest");
        assert!(error.contains(&expected), "{error}");
    }
    let tree = Tree::from_blob(OVERLAY).unwrap();
    let copied = Copied::Listed(&[]);
    tree.template(&Choice::Symbol("far"), copied)
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
        assert!(matches!(error, SourceError::Blob { .. }), "{error}");
    }
    let error = Tree::from_blob(&vec![0; (4 << 20) + 1]).unwrap_err();
    assert!(error.to_string().contains("more than 4194304"), "{error}");
}
