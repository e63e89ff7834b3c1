//! Devices whose configuration space is not what it should be.

use proptest::prelude::*;

use testbed::assigned::Device;

use super::*;

fn refused(config: [u8; CONFIG_SIZE]) -> String {
    let device = Device::new(config, &pc::parts());
    let assigned = pc::assign(&device, true, &Arc::default()).unwrap();
    assigned.unwrap_err().to_string()
}

fn with(at: usize, bytes: &[u8]) -> [u8; CONFIG_SIZE] {
    let mut config = pc::config();
    config[at..at + bytes.len()].copy_from_slice(bytes);
    config
}

#[test]
fn device_that_cannot_be_assigned_is_refused_with_the_reason() {
    for (at, bytes, reason) in [
        (
            0,
            &[0xff, 0xff][..],
            "the device does not answer: its vendor reads as 0xffff",
        ),
        (
            0x0e,
            &[0x81],
            "the device has a header of type 1, only type 0 can be assigned",
        ),
        (0x3d, &[5], "interrupt pin 5 is not 1 (INTA) to 4 (INTD)"),
        (
            0x10,
            &[0x06, 0, 0, 0xe0],
            "BAR0 reads as 0xe0000006, which is not a kind of BAR",
        ),
        (
            0x41,
            &[0x40],
            "the capability pointer at 0x41 leads back to 0x40",
        ),
        (
            MSIX + 4,
            &[0x03],
            "the table of msi-x is in BAR3, which is not a memory BAR",
        ),
        (
            MSIX + 2,
            &[0x04],
            "the device has 5 vectors of MSI-X, and 4 can be wired",
        ),
        (
            MSI + 2,
            &[0x8a],
            "the device has 32 vectors of MSI, and 2 can be wired",
        ),
    ] {
        assert_eq!(refused(with(at, bytes)), reason);
    }
}

#[test]
fn device_that_cannot_be_read_is_refused() {
    let device = Device::new(pc::config(), &pc::parts());
    let opened = device.open().unwrap();
    device.lock().fails = true;
    let on_error = Box::new(|error| panic!("{error}"));
    let assigned = AssignedPci::new(Arc::new(opened), device.guest(), true, on_error);
    let text = assigned.unwrap_err().to_string();
    assert_eq!(text, "cannot read configuration space");
}

#[test]
fn device_without_capabilities_has_an_empty_list() {
    let mut pc = Pc::with(Device::new(with(6, &[0]), &pc::parts()));
    assert_eq!(pc.read(0x34, 1), 0);
    assert_eq!(pc.read(0x06, 2) & 0x10, 0);
    assert_eq!(pc.device.lock().wired, Wired::Intx(gsi()));
}

proptest! {
    /// A device with any configuration space is refused, or can be configured in any way.
    #[test]
    fn any_device_is_survived(
        noise in prop::collection::vec((0_usize..CONFIG_SIZE, any::<u8>()), 0..24),
        sizes in prop::array::uniform6(prop_oneof![Just(0_u64), (0_u32..64).prop_map(|log| 1 << log), any::<u64>()]),
        areas in prop::collection::vec((0_u64..0x10000, 0_u64..0x10000), 0..2),
        writes in prop::collection::vec((0_usize..64, any::<u32>()), 0..30),
    ) {
        let mut config = pc::config();
        for (at, byte) in noise {
            config[at] = byte;
        }
        let mut parts = pc::parts();
        for (bar, size) in parts.bars.iter_mut().zip(sizes) {
            if size != 0 {
                *bar = (size, areas.clone());
            }
        }
        if let Some(mut pc) = Pc::try_with(Device::new(config, &parts)) {
            for (dword, value) in writes {
                pc.write(dword * 4, &value.to_le_bytes());
                pc.read(dword * 4, 4);
            }
        }
    }
}
