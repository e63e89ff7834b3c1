use super::*;

/// Two regions with a hole between them, and a third one directly behind the second.
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
