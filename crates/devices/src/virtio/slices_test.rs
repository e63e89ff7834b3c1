use proptest::prelude::*;
use vm_memory::Bytes;

use super::*;

const RAM: usize = 0x4000;

/// Two adjacent regions.
fn memory() -> GuestMemoryMmap {
    let regions = [0, RAM / 2].map(|at| (GuestAddress(at as u64), RAM / 2));
    GuestMemoryMmap::from_ranges(&regions).unwrap()
}

fn looked_up<'m>(
    memory: &'m GuestMemoryMmap,
    buffers: &[Buffer],
) -> Result<Vec<VolatileSlice<'m>>, HandlerError> {
    let mut slices = SliceList::new(memory);
    slices.look_up(buffers, &[])?;
    Ok(slices.as_slice().to_vec())
}

/// A position at the start of these slices.
fn all<'r, const WRITABLE: bool>(slices: &'r [VolatileSlice<'r>]) -> Slices<'r, WRITABLE> {
    Slices::new(slices, slices.iter().map(VolatileSlice::len).sum())
}

#[test]
fn list_is_used_again_by_few_and_by_many_slices() {
    let memory = memory();
    let mut list = SliceList::new(&memory);
    for count in [3, FEW, FEW + 1, 2, 5 * FEW, 0, 1] {
        let buffers: Vec<_> = (1..=count)
            .map(|len| Buffer::new(0, u32::try_from(len).unwrap()))
            .collect();
        let (front, back) = buffers.split_at(count / 2);
        list.look_up(front, back).unwrap();
        let lens = list.readable().slices().map(|slice| slice.len());
        assert!(lens.eq(1..=count / 2), "{count}");
        let lens = list.writable().slices().map(|slice| slice.len());
        assert!(lens.eq(count / 2 + 1..=count), "{count}");
    }
}

#[test]
fn buffer_that_spans_two_regions_is_two_slices() {
    let memory = memory();
    let slices = looked_up(&memory, &[Buffer::new(0x1ff0, 0x20)]).unwrap();
    let lens: Vec<_> = slices.iter().map(VolatileSlice::len).collect();
    assert_eq!(lens, [0x10, 0x10]);
}

#[test]
fn each_buffer_is_found_in_its_region_wherever_the_last_one_was() {
    let memory = memory();
    let places = [0x2100, 0x100, 0x3fff, 0x2000, 0x1fff, 0];
    for (at, byte) in places.into_iter().zip(1_u8..) {
        memory.write_obj(byte, GuestAddress(at)).unwrap();
    }
    let slices = looked_up(&memory, &places.map(|at| Buffer::new(at, 1))).unwrap();
    let mut bytes = [0; 6];
    let mut from: Readable<'_> = all(&slices);
    assert_eq!(from.read(&mut bytes), 6);
    assert_eq!(bytes, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn empty_buffer_is_no_slice_wherever_it_is() {
    let memory = memory();
    let buffers = [0, RAM as u64, u64::MAX].map(|at| Buffer::new(at, 0));
    assert!(looked_up(&memory, &buffers).unwrap().is_empty());
}

#[test]
fn buffer_that_is_not_all_in_memory_is_refused_with_its_address() {
    let memory = memory();
    for (at, len) in [
        (RAM as u64, 1),
        (RAM as u64 - 1, 2),
        (0, u32::MAX),
        (u64::MAX - 1, 1),
    ] {
        let buffers = [Buffer::new(0, 8), Buffer::new(at, len)];
        let error = looked_up(&memory, &buffers).unwrap_err();
        assert!(
            matches!(error, HandlerError::Outside { address, .. } if address.0 == at),
            "{at:#x} {len}: {error:?}"
        );
    }
}

#[test]
fn write_ends_with_the_buffers_and_a_read_too() {
    let memory = memory();
    let slices = looked_up(&memory, &[Buffer::new(0x100, 3), Buffer::new(0x200, 2)]).unwrap();
    let mut to: Writable<'_> = all(&slices);
    assert_eq!(to.write(b"1234567"), 5);
    assert!(to.is_empty());
    assert_eq!(to.write(b"8"), 0);
    let mut bytes = [0xff; 7];
    let mut from: Readable<'_> = all(&slices);
    assert_eq!(from.read(&mut bytes), 5);
    assert_eq!(bytes, *b"12345\xff\xff");
    memory.read_slice(&mut bytes, GuestAddress(0x1ff)).unwrap();
    assert_eq!(bytes, *b"\x0045\0\0\0\0");
}

proptest! {
    /// However the bytes are cut into buffers, and wherever a device moves in them, they are the same bytes.
    #[test]
    fn bytes_are_those_of_the_buffers(
        lens in prop::collection::vec(0_u32..40, 0..12),
        steps in prop::collection::vec(0_usize..60, 0..8),
        at in 0_usize..300,
    ) {
        let memory = memory();
        let bytes: Vec<u8> = (0..=250).cycle().take(RAM).collect();
        memory.write_slice(&bytes, GuestAddress(0)).unwrap();
        // The buffers follow each other with gaps, and one of them crosses the boundary between the regions.
        let mut start = 0x1fd0;
        let (mut buffers, mut expected) = (Vec::new(), Vec::<u8>::new());
        for len in lens {
            buffers.push(Buffer::new(start as u64, len));
            expected.extend(&bytes[start..start + len as usize]);
            start += len as usize + 3;
        }
        let slices = looked_up(&memory, &buffers).unwrap();
        let whole: Readable<'_> = all(&slices);
        prop_assert_eq!(whole.len(), expected.len());

        let (front, back) = whole.split_at(at);
        let at = at.min(expected.len());
        for (mut part, expected) in [(front, &expected[..at]), (back, &expected[at..])] {
            let lens = part.slices().map(|slice| slice.len());
            prop_assert_eq!(lens.sum::<usize>(), expected.len());
            prop_assert!(part.slices().all(|slice| !slice.is_empty()));
            let mut read = vec![0; expected.len() + 1];
            prop_assert_eq!(part.read(&mut read), expected.len());
            prop_assert_eq!(&read[..expected.len()], expected);
        }

        let (mut part, mut done) = (whole, 0);
        for (index, step) in steps.into_iter().enumerate() {
            let left = expected.len() - done;
            if index % 2 == 0 {
                part.skip(step);
            } else {
                let mut read = vec![0; step];
                let len = part.read(&mut read);
                prop_assert_eq!(&read[..len], &expected[done..done + len]);
            }
            done += step.min(left);
            prop_assert_eq!(part.len(), expected.len() - done);
        }
    }
}
