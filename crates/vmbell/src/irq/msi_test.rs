use super::*;

fn msi(address: u64, data: u32) -> Msi {
    Msi {
        address,
        data,
        device: None,
    }
}

#[test]
fn msi_to_a_local_apic_is_accepted() {
    for (address, data) in [
        (0xfee0_3000, 0x41),
        (0xfee0_3004, 0x141),
        (0xfeef_f008, 0x41),
        (0xfee0_0000, 0x8041),
    ] {
        msi(address, data).check(IrqArch::X86_64).unwrap();
    }
    assert_eq!(Msi::fixed(3, 0x41), msi(0xfee0_3000, 0x41));
}

#[test]
fn msi_with_a_vector_below_16_is_refused() {
    for vector in 0..16 {
        let error = Msi::fixed(0, vector).check(IrqArch::X86_64).unwrap_err();
        assert!(matches!(error, IrqError::Vector { vector: v } if v == vector));
    }
    assert!(Msi::fixed(0, 16).check(IrqArch::X86_64).is_ok());
}

#[test]
fn msi_to_no_local_apic_is_refused() {
    for address in [0, 0xfed0_0000, 0xfef0_0000, 0x1_fee0_0000] {
        let error = msi(address, 0x41).check(IrqArch::X86_64).unwrap_err();
        assert!(matches!(error, IrqError::MsiAddress { .. }), "{error}");
    }
}

#[test]
fn msi_that_is_no_interrupt_is_refused() {
    for mode in 2..8 {
        let data = 0x8041 | u32::from(mode) << 8;
        let error = msi(0xfee0_0000, data).check(IrqArch::X86_64).unwrap_err();
        assert!(
            matches!(error, IrqError::Mode { mode: m } if m == mode),
            "{error}"
        );
    }
}

#[test]
fn message_of_arm64_names_its_device() {
    let message = msi(0x808_0040, 1);
    let error = message.check(IrqArch::Arm64).unwrap_err();
    assert!(matches!(error, IrqError::NoDevice), "{error}");
    let device = Some(8);
    assert!(Msi { device, ..message }.check(IrqArch::Arm64).is_ok());
}
