//! Places that device memory cannot have, each with the rule that it breaks.

use std::fs::File;
use std::sync::Arc;

use vmbell_hypervisor::{DeviceMemory, DeviceMemoryRule as Rule, Error, Hypervisor, VmConfig};

use crate::device_memory::{SIZE, memory, with_memory};
use testbed::{HOLE, chain};

/// Returns the rule that a guest with these places breaks.
fn broken<H: Hypervisor>(h: &H, places: &[(u64, &DeviceMemory)]) -> Rule {
    match h.create_vm(&with_memory(places)).map(|_| ()) {
        Err(Error::DeviceMemory { rule, .. }) => rule,
        other => panic!("{other:?}"),
    }
}

fn what_is_no_whole_pages_is_refused<H: Hypervisor>(h: &H) {
    let whole = memory(true);
    assert_eq!(broken(h, &[(HOLE + 0x800, &whole)]), Rule::Pages);
    for (offset, size) in [(0x2001, SIZE), (0x2000, SIZE - 1), (0x2000, 0)] {
        let part = DeviceMemory {
            offset,
            size,
            ..whole.clone()
        };
        assert_eq!(broken(h, &[(HOLE, &part)]), Rule::Pages, "{part:?}");
    }
}

fn what_wraps_is_refused<H: Hypervisor>(h: &H) {
    let whole = memory(true);
    assert_eq!(broken(h, &[(u64::MAX - 0xfff, &whole)]), Rule::Wraps);
    let part = DeviceMemory {
        offset: u64::MAX - 0xfff,
        ..whole
    };
    assert_eq!(broken(h, &[(HOLE, &part)]), Rule::Wraps);
}

fn what_overlaps_is_refused<H: Hypervisor>(h: &H) {
    let config = VmConfig::default();
    let (start, len) = (config.ram_base, config.ram_size);
    let ram = Rule::Overlap { start, len };
    let memory = memory(true);
    let end = start + len;
    for address in [start, start - 0x1000, end - 0x1000, start + len / 2] {
        assert_eq!(broken(h, &[(address, &memory)]), ram, "{address:#x}");
    }
    let other = Rule::Overlap {
        start: HOLE,
        len: SIZE,
    };
    for address in [HOLE, HOLE - 0x1000, HOLE + 0x1000] {
        let places = [(HOLE, &memory), (address, &memory)];
        assert_eq!(broken(h, &places), other, "{address:#x}");
    }
}

fn what_the_file_does_not_have_is_refused<H: Hypervisor>(h: &H) {
    let memory = memory(true);
    let len = memory.offset + SIZE - 0x1000;
    memory.file.set_len(len).unwrap();
    assert_eq!(broken(h, &[(HOLE, &memory)]), Rule::File { len });
}

fn a_file_that_cannot_be_mapped_is_refused<H: Hypervisor>(h: &H) {
    // A file that cannot be mapped, and a file that can only be read.
    for path in ["/dev/random", "/proc/self/exe"] {
        let file = File::open(path).unwrap();
        let memory = DeviceMemory {
            file: Arc::new(file),
            ..memory(true)
        };
        let error = h.create_vm(&with_memory(&[(HOLE, &memory)])).map(|_| ());
        let text = chain(&error.unwrap_err());
        assert!(text.starts_with("cannot map device memory: "), "{text}");
    }
}

fn what_the_sandbox_has_no_room_for_is_refused<H: Hypervisor>(h: &H) {
    let memory = memory(true);
    // The addresses of the stub's own mappings and of the interrupt controllers, and addresses above the low 4 GiB.
    for address in [0xfec0_0000, 0xfee0_0000, 1 << 32, 1 << 46] {
        let rule = broken(h, &[(address, &memory)]);
        assert!(matches!(rule, Rule::Place { .. }), "{address:#x}: {rule}");
    }
    let places = (0..13).map(|index| (HOLE + 0x10_0000 * index, &memory));
    let rule = broken(h, &places.collect::<Vec<_>>());
    assert_eq!(rule, Rule::Count { most: 12 });
}

testbed::on_both! {
    what_is_no_whole_pages_is_refused;
    what_wraps_is_refused;
    what_overlaps_is_refused;
    what_the_file_does_not_have_is_refused;
    a_file_that_cannot_be_mapped_is_refused;
}

mod of_one_backend {
    use super::what_the_sandbox_has_no_room_for_is_refused;

    testbed::on_usermode! {
        what_the_sandbox_has_no_room_for_is_refused;
    }
}
