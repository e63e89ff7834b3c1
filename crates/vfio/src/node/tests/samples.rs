//! Trees without a device or a controller.

use super::super::{Parent, Tree, sample_tree};
use super::devices::{parent, rtc};

#[test]
fn a_tree_without_devices_or_a_controller_is_one() {
    let lonely = Parent {
        interrupts: None,
        ..parent(1, 1, 1)
    };
    let mut device = rtc();
    device.interrupts.clear();
    for devices in [&[][..], &[device]] {
        let blob = sample_tree(devices, &lonely).unwrap();
        Tree::from_blob(&blob).unwrap();
    }
}
