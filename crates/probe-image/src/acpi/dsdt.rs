//! The DSDT, read without an interpreter: the resources of devices named `LNRO0005` (virtio-mmio), and the sleep type
//! for S5. AML that computes its resources is not supported.

use crate::number::{u8_at, u32_at};

/// A virtio-mmio device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// The guest-physical address of the device's registers.
    pub address: u64,
    /// The device's interrupt, if it has one.
    pub interrupt: Option<Interrupt>,
}

/// An interrupt of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// The interrupt's GSI.
    pub gsi: u32,
    /// Whether the line is level-triggered.
    pub level: bool,
}

const NAME: &[u8] = b"LNRO0005";
/// How far after a device's name to look for its resources.
const REACH: usize = 256;
/// A Memory32Fixed descriptor of 9 bytes (ACPI 6.5, 6.4.3.4).
const MEMORY32_FIXED: &[u8] = &[0x86, 9, 0];
/// An extended interrupt descriptor (6.4.3.6).
const EXTENDED_INTERRUPT: u8 = 0x89;

/// The places where a pattern begins.
fn find<'a>(bytes: &'a [u8], pattern: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    bytes
        .windows(pattern.len())
        .enumerate()
        .filter(move |(_, window)| *window == pattern)
        .map(|(place, _)| place)
}

/// The devices, in the table's order.
pub fn devices(table: &[u8]) -> impl Iterator<Item = Device> {
    find(table, NAME).filter_map(|place| {
        let rest = &table[place + NAME.len()..];
        let rest = &rest[..rest.len().min(REACH)];
        // Stops at the next device, because the resources after it belong to that device.
        let rest = &rest[..find(rest, NAME).next().unwrap_or(rest.len())];
        let memory = &rest[find(rest, MEMORY32_FIXED).next()?..];
        let interrupt = || {
            let descriptor = memory.get(12..)?;
            let one = u8_at(descriptor, 0)? == EXTENDED_INTERRUPT && u8_at(descriptor, 4)? == 1;
            let level = u8_at(descriptor, 3)? & 2 == 0;
            let gsi = u32_at(descriptor, 5)?;
            one.then_some(Interrupt { gsi, level })
        };
        Some(Device {
            address: u64::from(u32_at(memory, 4)?),
            interrupt: interrupt(),
        })
    })
}

/// SLP_TYPa of S5: the first element of the package `\_S5_`.
pub fn sleep_type(table: &[u8]) -> Option<u8> {
    const PACKAGE: u8 = 0x12;
    let rest = &table[find(table, b"_S5_").next()? + 4..];
    if u8_at(rest, 0)? != PACKAGE {
        return None;
    }
    // The package's length is one byte, whose upper two bits count the further length bytes. Its element count follows.
    let elements = 2 + usize::from(u8_at(rest, 1)? >> 6) + 1;
    let value = match u8_at(rest, elements - 1).zip(u8_at(rest, elements))? {
        (0, _) => None,
        (_, 0x0a) => u8_at(rest, elements + 1),
        (_, value @ 0..=1) => Some(value),
        _ => None,
    };
    value.filter(|value| *value < 8)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::{Device, Interrupt, devices, sleep_type};

    fn device(address: u32, flags: u8, gsi: u32) -> Vec<u8> {
        let mut bytes = b"_HID\x0dLNRO0005\0\x08_UID\x00\x08_CRS\x11\x18\x0a\x15".to_vec();
        bytes.extend([0x86, 9, 0, 1]);
        bytes.extend(address.to_le_bytes());
        bytes.extend([0, 2, 0, 0]);
        bytes.extend([0x89, 6, 0, flags, 1]);
        bytes.extend(gsi.to_le_bytes());
        bytes.extend([0x79, 0]);
        bytes
    }

    fn expected(address: u64, gsi: u32, level: bool) -> Device {
        Device {
            address,
            interrupt: Some(Interrupt { gsi, level }),
        }
    }

    #[test]
    fn each_device_has_its_own_resources() {
        let table = [device(0xfeb0_0000, 1, 24), device(0xfeb0_0200, 3, 25)].concat();
        assert!(devices(&table).eq([
            expected(0xfeb0_0000, 24, true),
            expected(0xfeb0_0200, 25, false)
        ]));
    }

    #[test]
    fn a_device_without_resources_does_not_take_the_next_ones() {
        let table = [b"LNRO0005\0".to_vec(), device(0xfeb0_0000, 1, 24)].concat();
        assert!(devices(&table).eq([expected(0xfeb0_0000, 24, true)]));
    }

    #[test]
    fn cut_tables_lose_the_interrupt_or_the_device() {
        let whole = device(0xfeb0_0000, 1, 24);
        let without = |cut| devices(&whole[..whole.len() - cut]).next();
        let device = without(4).unwrap();
        assert_eq!((device.address, device.interrupt), (0xfeb0_0000, None));
        assert_eq!(without(20), None);
    }

    #[test]
    fn the_package_of_s5_has_the_sleep_type() {
        assert_eq!(
            sleep_type(b"\x08_S5_\x12\x06\x04\x0a\x05\x0a\x05\0\0"),
            Some(5)
        );
        assert_eq!(sleep_type(b"\x08_S5_\x12\x05\x04\0\0\0\0"), Some(0));
        assert_eq!(sleep_type(b"\x08_S5_\x12\x05\x04\x01\0\0\0"), Some(1));
        assert_eq!(sleep_type(b"_S5_\x12\x46\0\x04\x0a\x05"), Some(5));
    }

    #[test]
    fn broken_packages_have_none() {
        for bytes in [
            b"_S5_".as_slice(),
            b"_S5_\x12",
            b"_S5_\x12\xff",
            b"_S5_\x12\x06\x04\x0a",
            b"_S5_\x12\x06\x04\x0a\x08",
            b"_S5_\x12\x06\0\x0a\x05",
            b"_S5_\x13\x06\x04\x0a\x05",
            b"",
        ] {
            assert_eq!(sleep_type(bytes), None, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(pieces in prop::collection::vec(0..6_u8, 0..20), noise in any::<[u8; 12]>()) {
            let mut table = vec![0; 36];
            for piece in pieces {
                table.extend_from_slice(match piece {
                    0 => b"LNRO0005",
                    1 => b"_S5_\x12",
                    2 => &[0x86, 9, 0],
                    3 => &[0x89, 6, 0, 1, 1],
                    4 => &noise,
                    _ => &noise[..5],
                });
            }
            let _ = devices(&table).count();
            let _ = sleep_type(&table);
        }
    }
}
