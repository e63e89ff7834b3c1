use proptest::prelude::*;

use super::*;

const ON: MsixControl = MsixControl {
    enabled: true,
    masked: false,
};

fn table(control: MsixControl) -> MsixTable {
    let mut table = MsixTable::new(4);
    table.set_control(control);
    table
}

/// Sets up a vector as a guest does.
fn set(table: &mut MsixTable, vector: u16, msi: Msi) {
    let at = u64::from(vector) * ENTRY;
    assert_eq!(table.write(at, &msi.address.to_le_bytes()), Some(vector));
    let data = u64::from(msi.data).to_le_bytes();
    assert_eq!(table.write(at + 8, &data), Some(vector));
}

fn read(table: &MsixTable, offset: u64) -> u32 {
    let mut data = [0; 4];
    table.read(offset, &mut data);
    u32::from_le_bytes(data)
}

#[test]
fn vectors_are_masked_at_first() {
    let table = table(ON);
    for vector in 0..4 {
        assert_eq!(read(&table, u64::from(vector) * ENTRY + 12), 1);
        assert_eq!(table.message(vector), None);
    }
    assert_eq!(read(&table, 4 * ENTRY), u32::MAX, "there is no fifth one");
}

#[test]
fn message_needs_all_of_enable_and_both_masks_clear() {
    let msi = Msi::fixed(1, 0x51);
    for (enabled, masked, vector_masked) in [
        (true, false, false),
        (false, false, false),
        (true, true, false),
        (true, false, true),
    ] {
        let mut table = table(MsixControl { enabled, masked });
        set(&mut table, 2, msi);
        table.write(2 * ENTRY + 12, &u32::from(vector_masked).to_le_bytes());
        let sends = enabled && !masked && !vector_masked;
        assert_eq!(table.message(2), sends.then_some(msi));
        let expected = [None, None, table.message(2), None];
        assert_eq!(table.messages(), expected);
    }
}

#[test]
fn message_that_is_no_interrupt_keeps_its_vector_off() {
    let mut table = table(ON);
    for (address, data) in [(0, 0x51), (0x1_fee0_0000, 0x51), (0xfee0_0000, 3)] {
        set(
            &mut table,
            0,
            Msi {
                address,
                data,
                device: None,
            },
        );
        assert_eq!(table.message(0), None, "{address:#x} {data:#x}");
        assert_eq!(read(&table, 8), data, "and the guest reads what it wrote");
    }
}

#[test]
fn words_read_back_without_their_reserved_bits() {
    let mut table = table(ON);
    for word in 0..4 {
        table.write(ENTRY + 4 * word, &[0xff; 4]);
    }
    let words: Vec<_> = (0..4).map(|word| read(&table, ENTRY + 4 * word)).collect();
    assert_eq!(words, [0xffff_fffc, 0xffff_ffff, 0xffff_ffff, 1]);
    let mut data = [0; 8];
    table.read(ENTRY + 8, &mut data);
    assert_eq!(data, [0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
}

#[test]
fn access_of_another_width_or_alignment_does_nothing() {
    let mut table = table(ON);
    for (offset, len) in [
        (0, 1),
        (0, 2),
        (2, 4),
        (4, 8),
        (1, 4),
        (0, 3),
        (0, 0),
        (0, 16),
    ] {
        assert_eq!(table.write(offset, &vec![0; len]), None);
        let mut data = vec![0; len];
        table.read(offset, &mut data);
        assert_eq!(data, vec![0xff; len], "{offset} {len}");
    }
    assert_eq!(read(&table, 12), 1, "still masked");
}

#[test]
fn pending_bits_are_those_of_the_backend() {
    let is_pending = |vector| matches!(vector, 0 | 9 | 31 | 63 | 64 | 2047);
    let bits = |offset, len| {
        let mut data = vec![0; len];
        read_pending(offset, &mut data, is_pending);
        data
    };
    assert_eq!(bits(0, 4), [0x01, 0x02, 0, 0x80]);
    assert_eq!(bits(0, 8), [0x01, 0x02, 0, 0x80, 0, 0, 0, 0x80]);
    assert_eq!(bits(8, 4), [1, 0, 0, 0]);
    assert_eq!(bits(252, 4), [0, 0, 0, 0x80]);
    assert_eq!(bits(0, 1), [0xff]);
    assert_eq!(bits(4, 8), [0xff; 8]);
    assert_eq!(bits(u64::MAX - 7, 8), [0; 8], "no vector has such a number");
}

proptest! {
    /// The guest reads what a plain array of bytes, written by aligned dwords, would contain. Only the vector that a
    /// write addresses changes its message.
    #[test]
    fn table_agrees_with_an_array(
        writes in prop::collection::vec(
            (0_u64..80, prop_oneof![Just(4_usize), Just(8), 0..9_usize], any::<[u8; 8]>(), any::<bool>()),
            0..60,
        ),
    ) {
        let mut table = table(ON);
        let mut model = [0_u8; 64];
        for vector in 0..4 {
            model[vector * 16 + 12] = 1;
        }
        for (offset, len, mut data, plausible) in writes {
            if plausible && offset % 16 == 0 {
                data[..4].copy_from_slice(&0xfee0_0000_u32.to_le_bytes());
            }
            let before = table.messages();
            let changed = table.write(offset, &data[..len]);
            let at = usize::try_from(offset).unwrap();
            let taken = matches!(len, 4 | 8) && at % len == 0 && at + len <= 64;
            prop_assert_eq!(changed.is_some(), taken);
            if taken {
                model[at..at + len].copy_from_slice(&data[..len]);
                let entry = at / 16 * 16;
                model[entry] &= !3;
                model[entry + 12] &= 1;
                model[entry + 13..entry + 16].fill(0);
            }
            for (vector, (before, after)) in before.into_iter().zip(table.messages()).enumerate() {
                prop_assert!(before == after || changed == u16::try_from(vector).ok());
            }
            for dword in 0..16 {
                let mut read = [0; 4];
                table.read(dword * 4, &mut read);
                let at = usize::try_from(dword).unwrap() * 4;
                prop_assert_eq!(&read, &model[at..at + 4]);
            }
        }
    }
}
