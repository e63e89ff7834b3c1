use proptest::prelude::*;

use super::*;
use crate::pci::{Identity, Registers, find_capabilities};

const AT: u8 = 0x70;
const FROM: usize = AT as usize;

fn bars() -> [Option<Bar>; BARS] {
    let bar = |space, size| {
        Some(Bar {
            space,
            size,
            prefetchable: false,
        })
    };
    let mut bars = [None; BARS];
    bars[0] = bar(BarSpace::Io, 256);
    bars[1] = bar(BarSpace::Memory32, 0x1000);
    bars[2] = bar(BarSpace::Memory64, 0x1_0000);
    bars
}

fn find(control: u16, table: u32, pending: u32) -> Result<MsixCapability, MsixError> {
    let mut bytes = [0; CONFIG_SIZE];
    bytes[0x06] = 0x10;
    bytes[0x34] = AT;
    bytes[FROM] = CAPABILITY_MSIX;
    bytes[FROM + 2..FROM + 4].copy_from_slice(&control.to_le_bytes());
    bytes[FROM + 4..FROM + 8].copy_from_slice(&table.to_le_bytes());
    bytes[FROM + 8..FROM + 12].copy_from_slice(&pending.to_le_bytes());
    let found = find_capabilities(&bytes).unwrap();
    Ok(MsixCapability::find(&bytes, &found, &bars())?.unwrap())
}

#[test]
fn table_and_pending_bits_are_where_the_registers_say() {
    let capability = find(0xc000 | 64, 0x8002, 0x0801).unwrap();
    assert_eq!(capability.vectors(), 65);
    let part = |bar, offset, len| BarPart { bar, offset, len };
    assert_eq!(capability.table(), part(2, 0x8000, 65 * 16));
    assert_eq!(capability.pending(), part(1, 0x800, 16));
}

#[test]
fn device_without_the_capability_has_none() {
    let found = MsixCapability::find(&[0; CONFIG_SIZE], &[], &bars());
    assert_eq!(found, Ok(None));
}

#[test]
fn table_that_is_not_inside_a_memory_bar_is_refused() {
    let text = |table, pending| find(255, table, pending).unwrap_err().to_string();
    assert_eq!(
        text(0, 1),
        "the table of msi-x is in BAR0, which is not a memory BAR"
    );
    for bar in [3, 6, 7] {
        let error = find(255, 2, bar).unwrap_err();
        assert!(matches!(error, MsixError::Bar { .. }), "{error}");
    }
    assert_eq!(
        text(0x0009, 2),
        "the table of msi-x, 4096 bytes at 0x8, ends past the end of BAR1, which has 4096"
    );
    assert!(find(255, 0x0001, 0x2).is_ok());
    assert!(find(255, 2, 0x0fe1).is_ok());
    assert!(find(255, 2, 0x0fe9).is_err());
    assert!(find(255, 0xffff_fffa, 1).is_err());
}

#[test]
fn table_over_the_pending_bits_is_refused() {
    assert_eq!(
        find(255, 2, 0x0ff8 | 2).unwrap_err(),
        MsixError::Overlap { bar: 2 }
    );
    assert!(find(255, 2, 0x1000 | 2).is_ok());
}

#[test]
fn guest_writes_enable_and_mask_only() {
    let capability = find(0xc000 | 3, 0x8002, 0x0801).unwrap();
    let mut capabilities = CapabilityList::default();
    capabilities.add_at(AT, capability.shown()).unwrap();
    let mut config = ConfigSpace::new(Identity::default(), bars());
    config.add(&Registers {
        capabilities,
        ..Registers::default()
    });
    assert_eq!(capability.control(&config), MsixControl::default());
    for (byte, enabled, masked) in [(0xff, true, true), (0x80, true, false), (0x40, false, true)] {
        config.write(FROM + 2, &[byte; 10]);
        assert_eq!(capability.control(&config), MsixControl { enabled, masked });
        assert_eq!(config.word(FROM + 2) & !0xc000, 3);
        assert_eq!(config.dword(FROM + 4), 0x8002);
        assert_eq!(config.dword(FROM + 8), 0x0801);
    }
}

proptest! {
    /// For any register values of the device, its table and pending bits are inside their BARs.
    #[test]
    fn parts_are_inside_their_bars(control: u16, table in 0_u32..0x1_1000, pending in 0_u32..0x1_1000) {
        if let Ok(capability) = find(control, table, pending) {
            for part in [capability.table(), capability.pending()] {
                let bar = bars()[part.bar].unwrap();
                prop_assert!(part.len > 0 && part.offset + part.len <= bar.size);
            }
        }
    }
}
