//! The messages that MSIs encode.

use vmbell::irq::{IrqError, Msi};
use vmbell_core::lapic::{Destination, Message, Mode};

use super::super::messages::decode_msi;

fn msi(address: u64, data: u32) -> Msi {
    Msi {
        address,
        data,
        device: None,
    }
}

#[test]
fn msi_says_vector_destination_mode_and_trigger() {
    for (address, data, mode, destination) in [
        (0xfee0_3000, 0x41, Mode::Fixed, Destination::Physical(3)),
        (
            0xfee0_3004,
            0x141,
            Mode::LowestPriority,
            Destination::Logical(3),
        ),
        (0xfeef_f008, 0x41, Mode::LowestPriority, Destination::All),
    ] {
        let message = Message {
            vector: 0x41,
            mode,
            level: false,
            destination,
        };
        assert_eq!(decode_msi(msi(address, data)).unwrap(), message);
    }
    assert!(decode_msi(msi(0xfee0_0000, 0x8041)).unwrap().level);
}

#[test]
fn msi_that_no_local_apic_takes_is_refused_whatever_its_redirection_hint() {
    let error = decode_msi(msi(0xfee0_0008, 0x241)).unwrap_err();
    assert!(matches!(error, IrqError::Mode { mode: 2 }), "{error}");
    let error = decode_msi(msi(0xfed0_0000, 0x41)).unwrap_err();
    assert!(matches!(error, IrqError::MsiAddress { .. }), "{error}");
}
