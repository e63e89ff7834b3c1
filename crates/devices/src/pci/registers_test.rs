use super::*;
use crate::pci::capability::HEADER;
use crate::pci::{BARS, CAPABILITY_MSIX, ConfigSpace, Identity, Registers, find_capabilities};

const VENDOR: u8 = 9;

fn capability(id: u8, len: usize) -> Capability {
    Capability {
        id,
        registers: vec![0x5a; len - HEADER],
        writable: Vec::new(),
        own: 0,
    }
}

/// The offsets at which a guest finds the capabilities.
fn shown(capabilities: CapabilityList) -> Vec<u8> {
    let mut space = ConfigSpace::new(Identity::default(), [None; BARS]);
    space.add(&Registers {
        capabilities,
        ..Registers::default()
    });
    let mut bytes = [0; CONFIG_SIZE];
    space.read(0, &mut bytes);
    let found = find_capabilities(&bytes).unwrap();
    found.iter().map(|found| found.at()).collect()
}

#[test]
fn capabilities_follow_each_other_at_multiples_of_four() {
    let mut list = CapabilityList::default();
    let offsets = [16, 2, 5, 12].map(|len| list.add(capability(VENDOR, len)).unwrap());
    assert_eq!(offsets, [0x40, 0x50, 0x54, 0x5c]);
    assert_eq!(shown(list), offsets);
}

#[test]
fn registers_that_the_function_answers_for_have_a_place() {
    let mut list = CapabilityList::default();
    let own = Capability {
        own: 5,
        ..capability(VENDOR, 12)
    };
    assert_eq!(list.add(own).unwrap(), 0x40);
    assert_eq!(list.add(capability(VENDOR, 2)).unwrap(), 0x54);
}

#[test]
fn list_takes_all_of_configuration_space_and_no_more() {
    for (last, fits) in [(62, true), (64, true), (65, false)] {
        let mut list = CapabilityList::default();
        list.add(capability(VENDOR, 128)).unwrap();
        assert_eq!(list.add(capability(VENDOR, last)).is_ok(), fits, "{last}");
    }
    let mut full = CapabilityList::default();
    full.add(capability(VENDOR, 192)).unwrap();
    let error = full.add(capability(VENDOR, 2)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "capability 0x09 has 2 bytes, and configuration space has room for 0"
    );
    assert_eq!(shown(full), [0x40], "the refused one is not shown");
}

#[test]
fn capability_of_a_host_device_stays_where_it_is() {
    let mut list = CapabilityList::default();
    list.add_at(0xc8, capability(1, 2)).unwrap();
    list.add_at(0x50, capability(CAPABILITY_MSIX, 12)).unwrap();
    assert_eq!(list.add(capability(VENDOR, 8)).unwrap(), 0xcc);
    assert_eq!(shown(list), [0xc8, 0x50, 0xcc]);
}

#[test]
fn offset_that_cannot_be_is_refused() {
    for (at, len, fits) in [
        (0x40, 2, true),
        (0xf0, 16, true),
        (0x3c, 2, false),
        (0x42, 2, false),
        (0xf0, 17, false),
        (0x80, 2, false),
        (0x78, 9, false),
        (0x84, 2, true),
    ] {
        let mut list = CapabilityList::default();
        list.add_at(0x80, capability(1, 4)).unwrap();
        let added = list.add_at(at, capability(VENDOR, len));
        assert_eq!(added.is_ok(), fits, "{at:#x} {len}");
    }
    let second = [0x40, 0x80].map(|at| (at, capability(CAPABILITY_MSIX, 12)));
    let mut list = CapabilityList::default();
    let added = second.map(|(at, capability)| list.add_at(at, capability));
    assert!(matches!(
        added,
        [Ok(()), Err(CapabilityError::Twice { .. })]
    ));
}
