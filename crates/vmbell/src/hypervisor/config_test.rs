//! The settings of guests that are refused.

use super::*;

const END: u64 = 0x4000_0000;

/// The setting that is refused.
fn refused(config: &VmConfig) -> &'static str {
    match config.check(&[0, 0x10_0000], END) {
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
        ram(base, size).check(&[0, 0x10_0000], END).unwrap();
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
    let most = u32::try_from(MAX_VCPUS).unwrap();
    let with = |vcpus| VmConfig {
        vcpus,
        ..VmConfig::default()
    };
    for vcpus in [1, most] {
        with(vcpus).check(&[0x10_0000], END).unwrap();
    }
    for vcpus in [0, most + 1, u32::MAX] {
        assert_eq!(refused(&with(vcpus)), "vcpus");
    }
}
