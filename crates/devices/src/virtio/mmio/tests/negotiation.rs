use super::*;

#[test]
fn the_device_says_what_it_is() {
    let device = Device::new(Notify::Exit);
    assert_eq!(device.read(register::MAGIC_VALUE), 0x7472_6976);
    assert_eq!(device.read(register::VERSION), 2);
    assert_eq!(device.read(register::DEVICE_ID), 0xffff);
    assert_eq!(device.status(), 0);
    assert_eq!(device.read(register::CONFIG_GENERATION), 0);
    for half in [0xb0, 0xb4] {
        assert_eq!(device.read(half), u32::MAX, "there is no shared memory");
    }
}

#[test]
fn features_come_in_halves_and_beyond_them_is_nothing() {
    let device = Device::new(Notify::Exit);
    let half = |selector| {
        device.write(register::DEVICE_FEATURES_SEL, selector);
        device.read(register::DEVICE_FEATURES)
    };
    assert_eq!(half(0), 1 << 28 | 1 << 29);
    assert_eq!(half(1), 1 << 0 | 1 << 3);
    assert_eq!(half(2), 0);
    assert_eq!(half(u32::MAX), 0);
}

#[test]
fn a_feature_that_was_not_offered_is_not_accepted() {
    let device = Device::new(Notify::Exit);
    device.write(register::STATUS, PROBED);
    device.write(register::DRIVER_FEATURES_SEL, 1);
    // Packed rings are bit 34.
    device.write(register::DRIVER_FEATURES, VERSION_1 | 1 << 2);
    device.write(register::STATUS, PROBED | FEATURES_OK);
    assert_eq!(device.status(), PROBED);
    let refusal = device.refusal();
    assert!(matches!(refusal, Refusal::Features { chosen, .. } if chosen == 1 << 32 | 1 << 34));
    // The driver may choose again.
    device.write(register::DRIVER_FEATURES, VERSION_1);
    device.write(register::STATUS, PROBED | FEATURES_OK);
    assert_eq!(device.status(), PROBED | FEATURES_OK);
}

#[test]
fn a_driver_without_version_1_is_not_accepted() {
    let device = Device::new(Notify::Exit);
    device.write(register::STATUS, PROBED | FEATURES_OK);
    assert_eq!(device.status(), PROBED);
    assert!(matches!(
        device.refusal(),
        Refusal::Features { chosen: 0, .. }
    ));
}

#[test]
fn features_cannot_change_once_they_are_accepted() {
    let device = Device::new(Notify::Exit);
    device.negotiate(0);
    device.write(register::DRIVER_FEATURES_SEL, 0);
    device.write(register::DRIVER_FEATURES, u32::MAX);
    device.go_live();
    assert_eq!(device.status(), PROBED | FEATURES_OK | DRIVER_OK);
}

#[test]
fn driver_ok_without_features_ok_needs_a_reset() {
    let device = Device::new(Notify::Exit);
    device.write(register::STATUS, PROBED | DRIVER_OK);
    assert_eq!(device.status(), PROBED | NEEDS_RESET);
    assert!(matches!(device.refusal(), Refusal::DriverOkTooEarly));
    // The driver is refused even if both bits come at once and the features are bad.
    device.write(register::STATUS, 0);
    device.write(register::STATUS, PROBED | FEATURES_OK | DRIVER_OK);
    assert_eq!(device.status(), PROBED | NEEDS_RESET);
}

#[test]
fn a_status_bit_that_is_cleared_needs_a_reset() {
    let device = Device::new(Notify::Exit);
    device.negotiate(0);
    device.write(register::STATUS, ACKNOWLEDGE);
    assert_eq!(device.status(), PROBED | FEATURES_OK | NEEDS_RESET);
    let refusal = device.refusal();
    assert!(matches!(
        refusal,
        Refusal::StatusCleared { old: 11, new: 1 }
    ));
    device.write(register::STATUS, 0);
    assert_eq!(device.status(), 0);
}

#[test]
fn accesses_that_are_not_32_bits_do_nothing() {
    let device = Device::new(Notify::Exit);
    device.transport.write(register::STATUS, &[1]);
    device.transport.write(register::STATUS, &[1, 0]);
    device
        .transport
        .write(register::STATUS, &[1, 0, 0, 0, 0, 0, 0, 0]);
    device.transport.write(register::STATUS + 2, &[1, 0, 0, 0]);
    assert_eq!(device.status(), 0);
    let mut data = [0xff; 2];
    device.transport.read(register::MAGIC_VALUE, &mut data);
    assert_eq!(data, [0, 0]);
}

#[test]
fn read_only_and_absent_registers_ignore_writes() {
    let device = Device::new(Notify::Exit);
    for offset in (0..0x200).step_by(4) {
        let writable = [0x14, 0x20, 0x24, 0x30, 0x38, 0x44, 0x50, 0x64, 0x70];
        if !writable.contains(&offset) && !(0x80..0xb0).contains(&offset) {
            let before = device.read(offset);
            device.write(offset, 0x5555_5555);
            assert_eq!(device.read(offset), before, "{offset:#x}");
        }
    }
}
