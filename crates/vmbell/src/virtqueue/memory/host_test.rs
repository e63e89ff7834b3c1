use super::*;

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
