//! Reads an untrusted device tree, writes what was taken from it, and reads that again.

use vmbell_vfio::node::{Choice, Copied, DeviceNode, NodeRegion, Parent, Tree, sample_tree};

/// A real overlay. Each case changes a few of its bytes.
const OVERLAY: &[u8] = include_bytes!("../../vfio/src/node/tests/golden/overlay.dtbo");

/// Does one run, as `data` decides.
pub fn fuzz(data: &[u8]) {
    let Some((&mode, rest)) = data.split_first() else {
        return;
    };
    let changes = usize::from(mode >> 1 & 7);
    let blob = if mode & 1 == 0 {
        rest.to_owned()
    } else {
        changed(&rest[..rest.len().min(3 * changes)])
    };
    let Ok(tree) = Tree::from_blob(&blob) else {
        return;
    };
    for choice in [
        Choice::Only,
        Choice::Path("/fragment@0/__overlay__/pl031@0"),
        Choice::Path("/"),
    ] {
        for copied in [Copied::All, Copied::Common] {
            if let Ok(device) = tree.device(&choice, copied) {
                again(device);
            }
        }
    }
}

/// Returns the overlay with changes. Each change has three bytes: the place and the new value.
fn changed(changes: &[u8]) -> Vec<u8> {
    let mut blob = OVERLAY.to_owned();
    for change in changes.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % blob.len();
        blob[place] = change[2];
    }
    blob
}

/// Checks that the guest's tree has what was taken, unless the tree is refused.
fn again(mut device: DeviceNode) {
    let parent = Parent {
        address_cells: 2,
        size_cells: 2,
        interrupts: None,
    };
    let region = NodeRegion {
        address: 0x1000,
        size: 0x1000,
    };
    device.regions.push(region);
    let path = format!("/platform-bus/{}@1000", device.name);
    let Ok(blob) = sample_tree(std::slice::from_ref(&device), &parent) else {
        return;
    };
    let tree = Tree::from_blob(&blob).expect("what was written is a tree");
    let read = tree.device(&Choice::Path(&path), Copied::All);
    let mut read = read.expect("the device is in it");
    read.regions.push(region);
    assert_eq!(read, device);
}
