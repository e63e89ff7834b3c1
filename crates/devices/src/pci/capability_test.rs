use proptest::prelude::*;

use super::*;

/// Configuration space with capabilities of these IDs at these offsets, in this order.
fn config(list: &[(u8, u8)]) -> [u8; CONFIG_SIZE] {
    let mut config = [0; CONFIG_SIZE];
    config[STATUS] = STATUS_CAPABILITIES;
    let mut pointer = CAPABILITY_POINTER;
    for &(id, at) in list {
        config[usize::from(pointer)] = at;
        config[usize::from(at)] = id;
        pointer = at + 1;
    }
    config
}

fn offsets(config: &[u8; CONFIG_SIZE]) -> Vec<(u8, u8)> {
    let found = find_capabilities(config).unwrap();
    found.iter().map(|found| (found.id, found.at)).collect()
}

#[test]
fn capabilities_are_found_in_the_order_of_the_list() {
    let list = [(1, 0xc8), (CAPABILITY_MSI, 0xd0), (0x10, 0x40)];
    assert_eq!(offsets(&config(&list)), list);
}

#[test]
fn device_without_the_status_bit_has_no_capabilities() {
    let mut config = config(&[(1, 0x40)]);
    config[STATUS] = 0;
    assert_eq!(offsets(&config), []);
}

#[test]
fn reserved_bits_of_a_pointer_are_ignored() {
    let mut config = config(&[(1, 0x40), (3, 0x50)]);
    config[usize::from(CAPABILITY_POINTER)] = 0x43;
    config[0x41] = 0x52;
    config[0x51] = 3;
    assert_eq!(offsets(&config), [(1, 0x40), (3, 0x50)]);
}

#[test]
fn pointer_into_the_header_is_refused() {
    let mut config = config(&[(1, 0x40)]);
    config[0x41] = 0x3c;
    let error = find_capabilities(&config).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the capability pointer at 0x41 leads to 0x3c, inside the header"
    );
}

#[test]
fn list_that_loops_is_refused() {
    let mut config = config(&[(1, 0x40), (3, 0x50)]);
    config[0x51] = 0x40;
    let error = find_capabilities(&config).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the capability pointer at 0x51 leads back to 0x40"
    );
    config[0x51] = 0x50;
    assert!(find_capabilities(&config).is_err(), "to itself");
}

#[test]
fn capability_that_ends_behind_the_space_is_refused() {
    let msi_at = |at, control: u16| {
        let mut config = config(&[(CAPABILITY_MSI, at)]);
        let from = usize::from(at) + 2;
        config[from..from + 2].copy_from_slice(&control.to_le_bytes());
        find_capabilities(&config)
    };
    let (wide, masks) = (1 << 7, 1 << 8);
    for (at, control) in [(0xf4, 0), (0xf0, wide), (0xec, masks), (0xe8, wide | masks)] {
        assert!(msi_at(at, control).is_ok(), "{at:#x} {control:#x}");
        assert!(msi_at(at + 4, control).is_err(), "{at:#x} {control:#x}");
    }
    assert!(find_capabilities(&config(&[(CAPABILITY_MSIX, 0xf4)])).is_ok());
    let error = find_capabilities(&config(&[(CAPABILITY_MSIX, 0xf8)])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "capability 0x11 at 0xf8 has 12 bytes and ends past 0xff"
    );
    assert_eq!(offsets(&config(&[(9, 0xfc)])), [(9, 0xfc)]);
}

#[test]
fn capability_inside_another_is_refused() {
    for list in [
        [(CAPABILITY_MSIX, 0x40), (1, 0x48)],
        [(1, 0x48), (CAPABILITY_MSIX, 0x40)],
    ] {
        let mut config = config(&list);
        let error = find_capabilities(&config).unwrap_err();
        assert!(
            matches!(error, CapabilityError::Overlap { .. }),
            "{error:?}"
        );
        config[0x41] = 0;
        config[0x49] = 0;
        assert_eq!(find_capabilities(&config).unwrap().len(), 1);
    }
}

#[test]
fn second_msi_capability_is_refused() {
    let error = find_capabilities(&config(&[(CAPABILITY_MSI, 0x40), (CAPABILITY_MSI, 0x80)]));
    assert_eq!(
        error.unwrap_err().to_string(),
        "two capabilities 0x05, at 0x40 and at 0x80"
    );
    assert_eq!(offsets(&config(&[(9, 0x40), (9, 0x80)])).len(), 2);
}

#[test]
fn device_that_reads_as_ones_is_refused() {
    assert!(find_capabilities(&[0xff; CONFIG_SIZE]).is_err());
}

proptest! {
    /// With any bytes, the capabilities found are inside configuration space, do not overlap, and are not too many.
    #[test]
    fn what_is_found_fits(
        bytes in prop::collection::vec(any::<u8>(), CONFIG_SIZE),
        pointers in prop::collection::vec((0x40_u8..=0xff, any::<u8>()), 0..16),
    ) {
        let mut config = [0; CONFIG_SIZE];
        config.copy_from_slice(&bytes);
        config[STATUS] |= STATUS_CAPABILITIES;
        for (at, to) in pointers {
            config[usize::from(at)] = to;
        }
        if let Ok(found) = find_capabilities(&config) {
            prop_assert!(found.len() <= 48);
            let mut taken = [false; CONFIG_SIZE];
            for capability in found {
                prop_assert!(capability.at >= 0x40 && capability.at % 4 == 0);
                for taken in &mut taken[usize::from(capability.at)..capability.end()] {
                    prop_assert!(!*taken);
                    *taken = true;
                }
            }
        }
    }
}
