use proptest::prelude::*;

use super::*;

fn bar(space: BarSpace, size: u64) -> Option<Bar> {
    Some(Bar {
        space,
        size,
        prefetchable: space == BarSpace::Memory64,
    })
}

/// BARs in memory, at ports, and with 4 GiB of 64-bit memory, as a pci-testdev has them.
fn space() -> ConfigSpace {
    let mut bars = [None; BARS];
    bars[0] = bar(BarSpace::Memory32, 4096);
    bars[1] = bar(BarSpace::Io, 256);
    bars[2] = bar(BarSpace::Memory64, 4 << 30);
    let identity = Identity {
        vendor: 0x1b36,
        device: 5,
        class: 0xff,
    };
    ConfigSpace::new(identity, bars)
}

fn dword(space: &ConfigSpace, offset: usize) -> u32 {
    let mut data = [0; 4];
    space.read(offset, &mut data);
    u32::from_le_bytes(data)
}

/// What a guest reads from a BAR after it has written ones; the guest then restores the value.
fn size_of(space: &mut ConfigSpace, index: usize) -> u32 {
    let at = FIRST_BAR + 4 * index;
    let before = dword(space, at);
    space.write(at, &[0xff; 4]);
    let answer = dword(space, at);
    space.write(at, &before.to_le_bytes());
    assert_eq!(dword(space, at), before);
    answer
}

#[test]
fn sizing_shows_size_and_kind_of_every_bar() {
    let mut space = space();
    assert_eq!(size_of(&mut space, 0), 0xffff_f000);
    assert_eq!(size_of(&mut space, 1), 0xffff_ff01);
    assert_eq!(size_of(&mut space, 2), 0x0000_000c, "4 GiB: no low bit");
    assert_eq!(size_of(&mut space, 3), 0xffff_ffff, "its upper half");
    assert_eq!(size_of(&mut space, 4), 0, "not implemented");
    assert_eq!(size_of(&mut space, 5), 0, "not implemented");
}

#[test]
fn register_says_whether_memory_is_prefetchable() {
    for (space, prefetchable, bits) in [
        (BarSpace::Io, true, 0b01),
        (BarSpace::Memory32, false, 0b0000),
        (BarSpace::Memory32, true, 0b1000),
        (BarSpace::Memory64, false, 0b0100),
        (BarSpace::Memory64, true, 0b1100),
    ] {
        let mut bars = [None; BARS];
        bars[0] = Some(Bar {
            space,
            size: 256,
            prefetchable,
        });
        let space = ConfigSpace::new(Identity::default(), bars);
        assert_eq!(dword(&space, 0x10), bits);
    }
}

#[test]
fn identity_cannot_be_written() {
    let mut space = space();
    space.write(0, &[0; 16]);
    assert_eq!(dword(&space, 0), 0x0005_1b36);
    assert_eq!(dword(&space, 8), 0x00ff_0000, "class and revision");
    assert_eq!(dword(&space, 0x0c), 0, "header of type 0");
    assert_eq!(dword(&space, 0x3c) >> 8 & 0xff, 0, "no interrupt pin");
}

#[test]
fn bar_answers_only_while_its_decode_is_on() {
    let mut space = space();
    space.assign(0, 0xe000_0000);
    space.assign(1, 0xc000);
    assert_eq!((space.placed(0), space.placed(1)), (None, None));
    space.write(COMMAND, &[1, 0]);
    assert_eq!(space.placed(0), None);
    assert_eq!(space.placed(1), BusRange::new(0xc000, 256).ok());
    space.write(COMMAND, &[2, 0]);
    assert_eq!(space.placed(0), BusRange::new(0xe000_0000, 4096).ok());
    assert_eq!(space.placed(1), None);
}

#[test]
fn bar_at_zero_or_at_the_end_of_its_space_is_nowhere() {
    let mut space = space();
    space.write(COMMAND, &[3, 0]);
    for index in 0..3 {
        assert_eq!(space.placed(index), None, "BAR{index} at 0");
        space.assign(index, u64::MAX);
        assert_eq!(space.placed(index), None, "BAR{index} while it is sized");
    }
    space.assign(1, 0x1_0000);
    assert_eq!(space.placed(1), None, "no port has 17 bits");
    space.assign(1, 0xff00);
    assert_eq!(space.placed(1), BusRange::new(0xff00, 256).ok());
}

#[test]
fn far_offsets_read_ones_and_take_nothing() {
    let mut space = space();
    let mut data = [0; 8];
    for offset in [252, 256, usize::MAX] {
        space.write(offset, &[0xff; 8]);
        space.read(offset, &mut data);
        assert_eq!(data[4..], [0xff; 4], "{offset:#x}");
    }
    assert_eq!(dword(&space, 252), 0);
}

proptest! {
    /// Widths and offsets do not matter: a wide read returns the same bytes as reads of single bytes, and a wide write
    /// is a write of its bytes in order.
    #[test]
    fn wide_accesses_are_their_bytes(
        writes in prop::collection::vec((0_usize..260, prop::collection::vec(any::<u8>(), 1..=8)), 0..20),
    ) {
        let (mut wide, mut narrow) = (space(), space());
        for (offset, data) in writes {
            wide.write(offset, &data);
            for (index, byte) in data.iter().enumerate() {
                narrow.write(offset + index, &[*byte]);
            }
            prop_assert_eq!(wide.bytes, narrow.bytes);
            let mut read = vec![0; data.len()];
            wide.read(offset, &mut read);
            for (index, byte) in read.into_iter().enumerate() {
                let mut one = [0];
                narrow.read(offset + index, &mut one);
                prop_assert_eq!(byte, one[0]);
            }
        }
    }

    /// After any write to a BAR, the range that it decodes is aligned and has the size of the BAR.
    #[test]
    fn decoded_addresses_are_aligned(value: u64) {
        for bar in space().bars.into_iter().flatten() {
            if let Some(range) = bar.decode(value) {
                prop_assert_eq!(range.first() % bar.size, 0);
                prop_assert_eq!(range.last() - range.first(), bar.size - 1);
            }
        }
    }
}
