use proptest::prelude::*;

use super::*;
use crate::pci::{BARS, CapabilityList, Identity, Registers, find_capabilities};

const AT: u8 = 0x50;
const FROM: usize = AT as usize;

/// The capability of a device with this message control register.
fn capability(control: u16) -> MsiCapability {
    let mut bytes = [0; CONFIG_SIZE];
    bytes[0x06] = 0x10;
    bytes[0x34] = AT;
    bytes[FROM] = CAPABILITY_MSI;
    bytes[FROM + 2..FROM + 4].copy_from_slice(&control.to_le_bytes());
    // What the device has set up before is not passed to the guest.
    bytes[FROM + 4..FROM + 24].fill(0xff);
    let found = find_capabilities(&bytes).unwrap();
    MsiCapability::find(&bytes, &found).unwrap()
}

fn config(capability: MsiCapability) -> ConfigSpace {
    let mut capabilities = CapabilityList::default();
    capabilities.add_at(AT, capability.shown()).unwrap();
    let mut config = ConfigSpace::new(Identity::default(), [None; BARS]);
    config.add(&Registers {
        capabilities,
        ..Registers::default()
    });
    config
}

/// Offsets of address, data and mask, for both widths of the address.
fn offsets(wide: bool) -> (usize, usize, usize) {
    let data = if wide { FROM + 12 } else { FROM + 8 };
    (FROM + 4, data, data + 4)
}

fn control(log_capable: u16, log_enabled: u16, flags: u16) -> u16 {
    log_capable << 1 | log_enabled << 4 | flags
}

#[test]
fn shown_capability_is_off_whatever_the_device_has() {
    for flags in [0, WIDE, MASKABLE, WIDE | MASKABLE] {
        let capability = capability(control(3, 7, flags | ENABLE | 0xfe00));
        let config = config(capability);
        assert_eq!(config.word(FROM + 2), control(3, 0, flags));
        assert_eq!(config.dword(FROM + 4), 0);
        assert_eq!(capability.state(&config), MsiState::default());
        assert_eq!(capability.vectors(), 8);
    }
}

#[test]
fn one_vector_is_the_message_of_its_registers() {
    for flags in [0, WIDE, MASKABLE, WIDE | MASKABLE] {
        let capability = capability(control(0, 0, flags));
        let mut config = config(capability);
        let (address, data, _) = offsets(flags & WIDE != 0);
        config.write(address, &0xfee0_1000_u32.to_le_bytes());
        config.write(data, &0x0041_u16.to_le_bytes());
        assert!(!capability.state(&config).enabled);
        config.write(FROM + 2, &ENABLE.to_le_bytes());
        let expected = MsiState {
            enabled: true,
            messages: vec![Some(Msi::fixed(1, 0x41))],
        };
        assert_eq!(capability.state(&config), expected, "{flags:#x}");
    }
}

#[test]
fn several_vectors_differ_in_the_low_bits_of_data() {
    let capability = capability(control(2, 0, WIDE));
    let mut config = config(capability);
    let (address, data, _) = offsets(true);
    config.write(address, &0xfee0_0000_u32.to_le_bytes());
    config.write(data, &0x0043_u16.to_le_bytes());
    for (log, first) in [(0, 0x43), (1, 0x42), (2, 0x40), (3, 0x40), (7, 0x40)] {
        config.write(FROM + 2, &control(0, log, ENABLE).to_le_bytes());
        let vectors = (first..).take(1 << log.min(2));
        let expected: Vec<_> = vectors.map(|vector| Some(Msi::fixed(0, vector))).collect();
        assert_eq!(capability.state(&config).messages, expected, "{log}");
    }
}

#[test]
fn masked_vectors_have_no_message() {
    for flags in [MASKABLE, WIDE | MASKABLE] {
        let capability = capability(control(2, 0, flags));
        let mut config = config(capability);
        let (address, data, mask) = offsets(flags & WIDE != 0);
        config.write(address, &0xfee0_0000_u32.to_le_bytes());
        config.write(data, &0x0040_u16.to_le_bytes());
        config.write(FROM + 2, &control(0, 2, ENABLE).to_le_bytes());
        config.write(mask, &0xffff_fff5_u32.to_le_bytes());
        assert_eq!(config.dword(mask), 5, "bits of vectors that there are");
        let message = |vector| Some(Msi::fixed(0, vector));
        let expected = [None, message(0x41), None, message(0x43)];
        assert_eq!(capability.state(&config).messages, expected);
        assert_eq!(capability.pending(), Some(mask + 4));
    }
    assert_eq!(capability(0).pending(), None);
}

#[test]
fn all_32_vectors_can_be_masked() {
    let capability = capability(control(7, 0, MASKABLE));
    assert_eq!(capability.vectors(), 32);
    let mut config = config(capability);
    let (_, _, mask) = offsets(false);
    config.write(mask, &[0xff; 4]);
    assert_eq!(config.dword(mask), u32::MAX);
}

#[test]
fn message_that_is_no_interrupt_keeps_its_vector_off() {
    let capability = capability(control(0, 0, WIDE));
    let (at, data_at, _) = offsets(true);
    for (address, data) in [
        (0_u64, 0x41_u16),
        (0x1_fee0_0000, 0x41),
        (0xfee0_0000, 0x0f),
        (0xfee0_0000, 0x0241),
    ] {
        let mut config = config(capability);
        config.write(at, &address.to_le_bytes());
        config.write(data_at, &data.to_le_bytes());
        config.write(FROM + 2, &ENABLE.to_le_bytes());
        let state = capability.state(&config);
        assert!(state.enabled);
        assert_eq!(state.messages, [None], "{address:#x} {data:#x}");
    }
}

proptest! {
    /// After any writes of the device and the guest, there are no more vectors than the device has, each message is an
    /// interrupt, and the device's read-only bits have not changed.
    #[test]
    fn any_device_and_any_guest_are_survived(
        device: u16,
        writes in prop::collection::vec((0_usize..28, prop::collection::vec(any::<u8>(), 1..=4)), 0..30),
    ) {
        let capability = capability(device);
        let mut config = config(capability);
        let before = config.word(FROM + 2);
        for (offset, data) in writes {
            config.write(FROM + offset, &data);
            let state = capability.state(&config);
            prop_assert!(state.messages.len() <= usize::from(capability.vectors()));
            prop_assert_eq!(state.enabled, !state.messages.is_empty());
            for message in state.messages.into_iter().flatten() {
                prop_assert!(message.check(IRQ_ARCH).is_ok());
            }
        }
        let guests = ENABLE | LOG << ENABLED_SHIFT;
        prop_assert_eq!(config.word(FROM + 2) & !guests, before);
        prop_assert_eq!(config.word(FROM), u16::from(CAPABILITY_MSI), "the list");
    }
}
