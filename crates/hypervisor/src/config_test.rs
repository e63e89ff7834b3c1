//! Checks which settings of a guest are refused.

use super::*;

const END: u64 = 0x4000_0000;
const PLACES: [Range<u64>; 2] = [0..END, 0x10_0000..END];
const MOST: u32 = 64;

/// Returns the name of the refused setting.
fn refused(config: &VmConfig) -> &'static str {
    match config.check(&PLACES, MOST) {
        Err(Error::Config { what, .. }) => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ram_begins_and_ends_where_the_backend_has_room() {
    let ram = |ram_base, ram_size| VmConfig {
        ram_base,
        ram_size,
        ..VmConfig::default()
    };
    for (base, size) in [(0, PAGE), (0, END), (0x10_0000, END - 0x10_0000)] {
        ram(base, size).check(&PLACES, MOST).unwrap();
    }
    assert_eq!(refused(&ram(0x20_0000, PAGE)), "ram_base");
    for (base, size) in [
        (0, 0),
        (0, PAGE + 1),
        (0, END + PAGE),
        (0x10_0000, END),
        (0, u64::MAX),
    ] {
        assert_eq!(refused(&ram(base, size)), "ram_size", "{base:#x} {size:#x}");
    }
}

#[test]
fn a_guest_has_one_vcpu_or_as_many_as_there_is_room_for() {
    let with = |vcpus| VmConfig {
        vcpus,
        ..VmConfig::default()
    };
    for vcpus in [1, MOST] {
        with(vcpus).check(&PLACES, MOST).unwrap();
    }
    for vcpus in [0, MOST + 1, u32::MAX] {
        assert_eq!(refused(&with(vcpus)), "vcpus");
    }
}

#[test]
fn numbers_of_people_are_decimal_and_addresses_are_not() {
    let text = |config: VmConfig| config.check(&PLACES[..1], MOST).unwrap_err().to_string();
    let vcpus = VmConfig {
        ram_base: 0,
        vcpus: 65,
        ..VmConfig::default()
    };
    assert_eq!(text(vcpus), "vcpus is 65, must be from 1 to 64");
    let size = VmConfig {
        ram_base: 0,
        ram_size: 5000,
        ..VmConfig::default()
    };
    let expected = "ram_size is 5000, must be a multiple of 4096 from 4096 to 1073741824";
    assert_eq!(text(size), expected);
    assert_eq!(
        text(VmConfig::default()),
        "ram_base is 0x100000, must be 0x0"
    );
}
