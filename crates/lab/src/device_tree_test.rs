use super::*;

/// Makes a tree with a clock and an IOMMU whose phandle is 7.
fn tree() -> DeviceTree {
    let node = |name: &str, inside: &[u8]| {
        let mut bytes = BEGIN_NODE.to_be_bytes().to_vec();
        bytes.extend(name.as_bytes());
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(inside);
        bytes.extend(END_NODE.to_be_bytes());
        bytes
    };
    let phandle = [PROPERTY, 4, 0, 7, NOP].map(u32::to_be_bytes).concat();
    let inside = [node("iommu@1", &phandle), node("rtc@2", &[])].concat();
    let mut structure = node("", &inside);
    structure.extend(9_u32.to_be_bytes());
    DeviceTree {
        reservations: [[1; 16], [0; 16]].concat(),
        structure,
        strings: b"phandle\0".to_vec(),
        boot_cpu: 3,
    }
}

#[test]
fn a_blob_is_taken_apart_and_put_together() {
    let blob = tree().to_bytes();
    assert_eq!(DeviceTree::parse(&blob).unwrap(), tree());
    assert_eq!(blob.len(), word(&blob, 4).unwrap() as usize);
}

#[test]
fn a_property_is_added_to_its_node_and_to_no_other() {
    let mut tree = tree();
    assert_eq!(tree.phandle("/iommu@1").unwrap(), 7);
    tree.add("/rtc@2", "iommus", &[0, 0, 0, 7, 0, 0, 0xff, 0xf8])
        .unwrap();
    tree.add("/rtc@2", "dma-coherent", &[]).unwrap();
    let tree = DeviceTree::parse(&tree.to_bytes()).unwrap();
    let mut found = Vec::new();
    tree.walk(|path, item| {
        if let TreeItem::Property { name, value } = item {
            let name = String::from_utf8(name.to_vec()).unwrap();
            found.push(format!("{path} {name} {value:x?}"));
        }
    });
    found.sort();
    let wanted = [
        "/iommu@1 phandle [0, 0, 0, 7]",
        "/rtc@2 dma-coherent []",
        "/rtc@2 iommus [0, 0, 0, 7, 0, 0, ff, f8]",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn what_is_missing_is_named() {
    let mut tree = tree();
    let error = tree.add("/rtc", "x", &[]).unwrap_err();
    assert_eq!(error.to_string(), "the device tree has no node /rtc");
    let error = tree.phandle("/rtc@2").unwrap_err().to_string();
    assert_eq!(error, "the device tree's node /rtc@2 has no number phandle");
}

#[test]
fn no_broken_blob_is_taken_and_none_is_a_panic() {
    let blob = tree().to_bytes();
    // The word after the end of the root is not read.
    let strings = blob.len() - 12;
    for length in 0..strings {
        assert!(DeviceTree::parse(&blob[..length]).is_err(), "{length}");
    }
    for place in 0..blob.len() {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut broken = blob.clone();
            broken[place] = byte;
            let _ = DeviceTree::parse(&broken);
        }
    }
}
