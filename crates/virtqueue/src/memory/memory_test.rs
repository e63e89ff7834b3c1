use super::*;
use crate::sync::AtomicU16;

/// Two regions with a hole between them, and a third one directly after the second.
fn memory() -> GuestMemoryMmap {
    let regions = [(0x1000, 0x2000), (0x4000, 0x1000), (0x5000, 0x1000)];
    let regions = regions.map(|(start, len)| (GuestAddress(start), len));
    GuestMemoryMmap::from_ranges(&regions).unwrap()
}

#[test]
fn bytes_of_one_region_are_where_the_region_is_mapped() {
    let memory = memory();
    for (addr, len) in [(0x1000, 0), (0x1010, 8), (0x1000, 0x2000), (0x4ff0, 0x10)] {
        let expected = memory.get_host_address(GuestAddress(addr)).unwrap();
        let borrowed = RingMemory::resolve(&&memory, addr, len).unwrap();
        assert_eq!(borrowed.as_ptr(), expected, "{addr:#x}");
        let counted = RingMemory::resolve(&Arc::new(memory.clone()), addr, len).unwrap();
        assert_eq!(counted.as_ptr(), expected, "{addr:#x}");
    }
}

#[test]
fn bytes_that_are_not_of_one_region_are_not_found() {
    let memory = memory();
    for (addr, len) in [
        (0xfff, 1),
        (0xfff, 2),
        (0x1000, 0x2001),
        (0x2ff8, 9),
        (0x3000, 1),
        (0x4ff8, 0x10),
        (0x1008, usize::MAX),
        (0x6000, 1),
        (u64::MAX, 1),
    ] {
        assert_eq!(RingMemory::resolve(&&memory, addr, len), None, "{addr:#x}");
        let counted = Arc::new(memory.clone());
        assert_eq!(RingMemory::resolve(&counted, addr, len), None, "{addr:#x}");
    }
}

#[test]
fn memory_is_whole_lines_and_ends_behind_its_last_byte() {
    let memory = HostMemory::new(100);
    assert_eq!((memory.len(), memory.is_empty()), (128, false));
    let first = memory.resolve(0, 128).unwrap();
    let last = memory.resolve(127, 1).unwrap();
    assert_eq!(last.addr().get() - first.addr().get(), 127);
    for (addr, len) in [(0, 129), (127, 2), (128, 1), (1, usize::MAX), (u64::MAX, 1)] {
        assert_eq!(memory.resolve(addr, len), None, "{addr:#x}");
    }
    assert!(HostMemory::new(0).is_empty());
}

#[test]
fn debug_output_of_memory_is_its_length() {
    let memory = HostMemory::new(64);
    assert_eq!(format!("{memory:?}"), "HostMemory { len: 64, .. }");
}

#[test]
fn free_running_index_selects_a_word_modulo_their_number() {
    let memory = HostMemory::new(64);
    let words = CyclicWords::<AtomicU16, _>::resolve(&memory, "words", 0, 8, 2).unwrap();
    for index in [0, 7, 8, 15, 0xffff, 0x1_0000, u64::MAX] {
        let expected = &words.all()[usize::try_from(index % 8).unwrap()];
        assert!(std::ptr::eq(words.at(index), expected), "{index:#x}");
    }
}

#[test]
fn number_of_words_that_no_mask_stands_for_is_refused() {
    let memory = HostMemory::new(64);
    for size in [0, 3, 0xffff] {
        let words = CyclicWords::<AtomicU16, _>::resolve(&memory, "words", 0, size, 2);
        assert_eq!(words.err(), Some(SetupError::Size { size }));
    }
}
