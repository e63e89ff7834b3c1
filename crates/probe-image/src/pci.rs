//! The configuration space of a PCI function: its BARs, and the capabilities of virtio (1.2, 4.1.4) and of MSI-X. With
//! PCI Express, also the address of that space in memory.

use crate::acpi::HEADER;
use crate::number::{u8_at, u16_at, u32_at, u64_at};

/// The length of a function's configuration space without PCI Express's extension.
pub const LEN: usize = 256;

/// The maximum number of capabilities that fit into the configuration space.
const MAX_CAPABILITIES: usize = 48;
const STATUS: usize = 6;
const HAS_CAPABILITIES: u16 = 1 << 4;
const FIRST_CAPABILITY: usize = 0x34;
const FIRST_BAR: usize = 0x10;

/// The bytes of a function's configuration space, read once.
#[derive(Debug)]
pub struct Config(pub [u8; LEN]);

/// A place in a BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which BAR, below 6.
    pub bar: u8,
    /// The offset in the BAR.
    pub offset: u32,
    /// The length if the capability has it, otherwise 0.
    pub len: u32,
}

/// The structures of a virtio device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Virtio {
    /// The common configuration.
    pub common: Option<Place>,
    /// Where queues are notified.
    pub notify: Option<Place>,
    /// The multiplier for a queue's notification offset.
    pub multiplier: u32,
    /// The interrupt status.
    pub isr: Option<Place>,
}

/// The MSI-X capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Msix {
    /// Where the capability is in the configuration space.
    pub capability: u8,
    /// The table of vectors.
    pub table: Place,
}

impl Config {
    /// The vendor ID and the device ID.
    pub fn ids(&self) -> (u16, u16) {
        let id = |place| u16_at(&self.0, place).unwrap_or(0xffff);
        (id(0), id(2))
    }

    /// Whether the device has further functions.
    pub fn is_multifunction(&self) -> bool {
        self.0[14] & 0x80 != 0
    }

    /// The line of the function's INTx, as firmware has written it.
    pub fn interrupt_line(&self) -> Option<u8> {
        let (line, pin) = (self.0[0x3c], self.0[0x3d]);
        (pin != 0 && line != 0 && line != 0xff).then_some(line)
    }

    /// The address of a memory BAR. `None` if the BAR is in ports, or has no address.
    pub fn memory_bar(&self, bar: u8) -> Option<u64> {
        let place = |bar: u8| FIRST_BAR + 4 * usize::from(bar);
        if bar > 5 {
            return None;
        }
        let low = u32_at(&self.0, place(bar))?;
        if low & 1 != 0 {
            return None;
        }
        let mut address = u64::from(low & !15);
        if low & 6 == 4 {
            if bar == 5 {
                return None;
            }
            address |= u64::from(u32_at(&self.0, place(bar + 1))?) << 32;
        }
        (address != 0).then_some(address)
    }

    /// The first port of an I/O BAR. `None` if the BAR is in memory, or has no port.
    pub fn port_bar(&self, bar: u8) -> Option<u16> {
        if bar > 5 {
            return None;
        }
        let low = u32_at(&self.0, FIRST_BAR + 4 * usize::from(bar))?;
        let port = u16::try_from(low & !3).ok()?;
        (low & 1 != 0 && port != 0).then_some(port)
    }

    /// The offsets of the capabilities. The iterator also ends for a circular list.
    fn capabilities(&self) -> impl Iterator<Item = usize> {
        let there = u16_at(&self.0, STATUS).is_some_and(|status| status & HAS_CAPABILITIES != 0);
        let mut next = if there { self.0[FIRST_CAPABILITY] } else { 0 };
        core::iter::from_fn(move || {
            let place = usize::from(next & 0xfc);
            next = *self.0.get(place + 1)?;
            (place >= 0x40).then_some(place)
        })
        .take(MAX_CAPABILITIES)
    }

    /// The structures of a virtio device: the first of each type, as the specification prefers.
    pub fn virtio(&self) -> Virtio {
        const VENDOR: u8 = 9;
        let mut found = Virtio::default();
        for at in self.capabilities() {
            let Some(bytes) = self.0.get(at..) else {
                continue;
            };
            let place = || {
                Some(Place {
                    bar: u8_at(bytes, 4).filter(|bar| *bar < 6)?,
                    offset: u32_at(bytes, 8)?,
                    len: u32_at(bytes, 12)?,
                })
            };
            if bytes[0] != VENDOR {
                continue;
            }
            match u8_at(bytes, 3) {
                Some(1) => found.common = found.common.or_else(place),
                Some(2) if found.notify.is_none() => {
                    found.notify = place();
                    found.multiplier = u32_at(bytes, 16).unwrap_or(0);
                }
                Some(3) => found.isr = found.isr.or_else(place),
                _ => {}
            }
        }
        found
    }

    /// MSI-X, if the function has it.
    pub fn msix(&self) -> Option<Msix> {
        const MSIX: u8 = 0x11;
        let at = self.capabilities().find(|at| self.0[*at] == MSIX)?;
        let table = u32_at(&self.0, at + 4)?;
        Some(Msix {
            capability: u8::try_from(at).ok()?,
            table: Place {
                bar: u8::try_from(table & 7).ok().filter(|bar| *bar < 6)?,
                offset: table & !7,
                len: 16,
            },
        })
    }
}

/// Where the entries of the MCFG begin.
const ENTRIES: usize = HEADER + 8;
const ENTRY: usize = 16;

/// The guest-physical address of the configuration space of segment 0, bus 0, from the MCFG (PCI Firmware 3.3, 4.1.2).
pub fn mcfg_base(table: &[u8]) -> Option<u64> {
    table
        .get(ENTRIES..)?
        .chunks_exact(ENTRY)
        .find(|entry| u16_at(entry, 8) == Some(0) && u8_at(entry, 10) == Some(0))
        .and_then(|entry| u64_at(entry, 0))
        .filter(|base| *base != 0 && base.is_multiple_of(1 << 20))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Config, LEN, Place, mcfg_base};

    fn empty() -> Config {
        let mut config = Config([0; LEN]);
        config.0[6] = 0x10;
        config
    }

    fn put(config: &mut Config, at: usize, bytes: &[u8]) {
        config.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    #[test]
    fn virtio_and_msix_are_found() {
        let mut config = empty();
        config.0[0x34] = 0x40;
        put(&mut config, 0x40, &[0x11, 0x50, 1, 0, 1, 0x10, 0, 0]);
        put(
            &mut config,
            0x50,
            &[9, 0x70, 16, 1, 4, 0, 0, 0, 0, 1, 0, 0, 56, 0, 0, 0],
        );
        put(
            &mut config,
            0x70,
            &[9, 0, 20, 2, 4, 0, 0, 0, 0, 2, 0, 0, 0, 16, 0, 0, 4, 0, 0, 0],
        );
        let found = config.virtio();
        let place = |offset, len| {
            Some(Place {
                bar: 4,
                offset,
                len,
            })
        };
        assert_eq!(
            (found.common, found.notify),
            (place(0x100, 56), place(0x200, 0x1000))
        );
        assert_eq!((found.multiplier, found.isr), (4, None));
        let msix = config.msix().unwrap();
        assert_eq!(
            (msix.capability, msix.table.bar, msix.table.offset),
            (0x40, 1, 0x1000)
        );
    }

    #[test]
    fn a_list_that_goes_in_circles_ends() {
        let mut config = empty();
        config.0[0x34] = 0x40;
        put(&mut config, 0x40, &[9, 0x40, 0, 5]);
        assert_eq!(config.virtio().common, None);
        assert_eq!(config.msix(), None);
    }

    #[test]
    fn what_stands_before_a_circle_is_found() {
        let mut config = empty();
        config.0[0x34] = 0x43;
        put(
            &mut config,
            0x40,
            &[9, 0x80, 16, 1, 4, 0, 0, 0, 0, 1, 0, 0, 56, 0, 0, 0],
        );
        put(&mut config, 0x80, &[0x11, 0x40, 1, 0, 1]);
        assert_eq!(
            config.virtio().common.map(|place| place.offset),
            Some(0x100)
        );
        assert_eq!(config.msix().map(|msix| msix.capability), Some(0x80));
    }

    #[test]
    fn a_list_ends_in_the_header_and_at_the_end_of_the_space() {
        for next in [0, 0x04, 0x3c] {
            let mut config = empty();
            put(&mut config, usize::from(next), &[0x11, 0x40]);
            config.0[0x40] = 0x11;
            config.0[6] = 0x10;
            config.0[0x34] = next;
            assert_eq!(config.msix(), None, "{next:#x}");
        }
        for kind in [9, 0x11] {
            let mut config = empty();
            config.0[0x34] = 0xff;
            put(&mut config, 0xfc, &[kind, 0xff, 16, 1]);
            assert_eq!((config.virtio().common, config.msix()), (None, None));
        }
        let mut config = empty();
        config.0[0x34] = 0x40;
        config.0[0x40] = 0x11;
        assert!(config.msix().is_some());
        config.0[6] = 0;
        assert_eq!(config.msix(), None, "no list");
    }

    #[test]
    fn structures_in_no_bar_are_none() {
        for bar in [6, 7, 0xff] {
            let mut config = empty();
            config.0[0x34] = 0x40;
            put(&mut config, 0x40, &[9, 0x60, 16, 1, bar, 0, 0, 0, 0, 1]);
            put(&mut config, 0x60, &[0x11, 0, 0, 0, bar & 7 | 6]);
            assert_eq!((config.virtio().common, config.msix()), (None, None));
        }
    }

    #[test]
    fn bars_above_four_gibibytes_are_whole() {
        let mut config = empty();
        put(&mut config, 0x20, &[0x0c, 0, 0, 0x10, 2, 0, 0, 0]);
        assert_eq!(config.memory_bar(4), Some(0x2_1000_0000));
        put(&mut config, 0x24, &[4, 0, 0, 0x10]);
        assert_eq!(config.memory_bar(5), None, "half a BAR");
        put(&mut config, 0x10, &[1, 0xc0, 0, 0]);
        assert_eq!(config.memory_bar(0), None, "a BAR at ports");
        assert_eq!(config.port_bar(0), Some(0xc000));
        assert_eq!(config.port_bar(1), None, "no port");
        assert_eq!(config.port_bar(4), None, "a BAR in memory");
        assert_eq!(config.port_bar(7), None);
        put(&mut config, 0x10, &[1, 0xc0, 1, 0]);
        assert_eq!(config.port_bar(0), None, "beyond the last port");
        assert_eq!(config.memory_bar(1), None, "no address");
        assert_eq!(config.memory_bar(7), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), LEN)) {
            let mut config = Config(bytes.try_into().unwrap());
            config.0[6] |= 0x10;
            let _ = (config.virtio(), config.msix(), config.interrupt_line());
            for bar in 0..=255 {
                let _ = (config.memory_bar(bar), config.port_bar(bar));
            }
        }
    }

    fn mcfg(address: u64, segment: u8, bus: u8) -> [u8; 60] {
        let mut table = [0; 60];
        table[44..52].copy_from_slice(&address.to_le_bytes());
        table[52] = segment;
        table[54] = bus;
        table
    }

    #[test]
    fn bus_0_of_segment_0_is_found() {
        assert_eq!(mcfg_base(&mcfg(0xb000_0000, 0, 0)), Some(0xb000_0000));
        assert_eq!(mcfg_base(&mcfg(0xb000_0000, 1, 0)), None);
        assert_eq!(mcfg_base(&mcfg(0xb000_0000, 0, 1)), None);
    }

    #[test]
    fn broken_tables_have_no_mcfg_base() {
        assert_eq!(mcfg_base(&mcfg(0, 0, 0)), None);
        assert_eq!(mcfg_base(&mcfg(0xb000_1000, 0, 0)), None);
        assert_eq!(mcfg_base(&mcfg(0xb000_0000, 0, 0)[..59]), None);
        assert_eq!(mcfg_base(&[]), None);
    }

    proptest! {
        #[test]
        fn any_mcfg_is_read(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = mcfg_base(&bytes);
        }
    }
}
