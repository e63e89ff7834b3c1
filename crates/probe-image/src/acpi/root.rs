//! The root table: the RSDP, and the RSDT or XSDT that it points to.

use super::HEADER;
use crate::number::{u8_at, u32_at, u64_at};

/// The length of an RSDP that names an XSDT.
pub const RSDP_LEN: usize = 36;

/// Returns whether the checksum of the ACPI 1.0 part is right: its bytes add up to 0.
pub fn is_intact(rsdp: &[u8; RSDP_LEN]) -> bool {
    rsdp[..20]
        .iter()
        .fold(0_u8, |sum, byte| sum.wrapping_add(*byte))
        == 0
}

/// The RSDT or XSDT, which has the addresses of all other tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The table's guest-physical address.
    pub address: u64,
    /// The size of its entries: 4 bytes in an RSDT, 8 in an XSDT.
    entry: usize,
}

impl Root {
    /// Reads an RSDP. `None` if the bytes are not an RSDP.
    pub fn parse(rsdp: &[u8]) -> Option<Self> {
        if !rsdp.starts_with(b"RSD PTR ") {
            return None;
        }
        let xsdt = (u8_at(rsdp, 15)? >= 2)
            .then(|| u64_at(rsdp, 24))
            .flatten()
            .filter(|address| *address != 0);
        let rsdt = u64::from(u32_at(rsdp, 16)?);
        match xsdt {
            Some(address) => Some(Self { address, entry: 8 }),
            None if rsdt != 0 => Some(Self {
                address: rsdt,
                entry: 4,
            }),
            None => None,
        }
    }

    /// The table addresses in the root table.
    pub fn tables<'a>(&self, table: &'a [u8]) -> impl Iterator<Item = u64> + use<'a> {
        let entries = table.get(HEADER..).unwrap_or(&[]);
        let long = self.entry == 8;
        entries.chunks_exact(self.entry).filter_map(move |entry| {
            if long {
                u64_at(entry, 0)
            } else {
                u32_at(entry, 0).map(u64::from)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{RSDP_LEN, Root};

    fn rsdp(revision: u8, rsdt: u32, xsdt: u64) -> [u8; RSDP_LEN] {
        let mut bytes = [0; RSDP_LEN];
        bytes[..8].copy_from_slice(b"RSD PTR ");
        bytes[15] = revision;
        bytes[16..20].copy_from_slice(&rsdt.to_le_bytes());
        bytes[24..32].copy_from_slice(&xsdt.to_le_bytes());
        bytes
    }

    #[test]
    fn an_old_rsdp_names_the_rsdt_only() {
        let root = Root::parse(&rsdp(0, 0x1000, 0x2000)).unwrap();
        assert_eq!((root.address, root.entry), (0x1000, 4));
        // An ACPI 1.0 RSDP has 20 bytes.
        assert!(Root::parse(&rsdp(0, 0x1000, 0)[..20]).is_some());
    }

    #[test]
    fn the_xsdt_is_preferred() {
        let root = Root::parse(&rsdp(2, 0x1000, 0x1_0000_2000)).unwrap();
        assert_eq!((root.address, root.entry), (0x1_0000_2000, 8));
        let mut table = [0; 36 + 17];
        table[36] = 1;
        table[44] = 2;
        assert!(root.tables(&table).eq([1, 2]), "half an entry is ignored");
    }

    #[test]
    fn without_an_address_there_is_no_root() {
        assert_eq!(Root::parse(&rsdp(2, 0, 0)), None);
        assert_eq!(Root::parse(b"RSD PTR "), None);
        assert_eq!(Root::parse(b"RSD_PTR "), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(mut bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Root::parse(&bytes);
            bytes.splice(.., [b"RSD PTR ".as_slice(), &bytes].concat());
            if let Some(root) = Root::parse(&bytes) {
                prop_assert!(root.tables(&bytes).count() < 80);
            }
        }
    }
}
