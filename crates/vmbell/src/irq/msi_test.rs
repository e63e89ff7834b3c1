use super::*;

fn message(mode: Mode, destination: Destination) -> Message {
    Message {
        vector: 0x41,
        mode,
        level: false,
        destination,
    }
}

#[test]
fn msi_says_vector_destination_mode_and_trigger() {
    let decode = |address, data| {
        Msi {
            address,
            data,
            device: None,
        }
        .message()
        .unwrap()
    };
    assert_eq!(
        decode(0xfee0_3000, 0x41),
        message(Mode::Fixed, Destination::Physical(3))
    );
    assert_eq!(
        Msi::fixed(3, 0x41).message().unwrap(),
        decode(0xfee0_3000, 0x41)
    );
    assert_eq!(
        decode(0xfee0_3004, 0x141),
        message(Mode::LowestPriority, Destination::Logical(3))
    );
    assert_eq!(
        decode(0xfeef_f008, 0x41),
        message(Mode::LowestPriority, Destination::All)
    );
    assert!(decode(0xfee0_0000, 0x8041).level);
}

#[test]
fn msi_with_a_vector_below_16_is_refused() {
    for vector in 0..16 {
        let error = Msi::fixed(0, vector).message().unwrap_err();
        assert!(matches!(error, IrqError::Vector { vector: v } if v == vector));
    }
    assert!(Msi::fixed(0, 16).message().is_ok());
}

#[test]
fn msi_to_no_local_apic_is_refused() {
    for address in [0, 0xfed0_0000, 0xfef0_0000, 0x1_fee0_0000] {
        let error = Msi {
            address,
            data: 0x41,
            device: None,
        }
        .message()
        .unwrap_err();
        assert!(matches!(error, IrqError::MsiAddress { .. }), "{error}");
    }
}

#[test]
fn msi_that_is_no_interrupt_is_refused() {
    for mode in 2..8 {
        let data = 0x8041 | u32::from(mode) << 8;
        let error = Msi {
            address: 0xfee0_0000,
            data,
            device: None,
        }
        .message()
        .unwrap_err();
        assert!(
            matches!(error, IrqError::Mode { mode: m } if m == mode),
            "{error}"
        );
    }
}
