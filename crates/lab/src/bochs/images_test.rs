use super::*;

/// Makes an ELF with a loaded segment at `address` and, with `entry`, the note of the PVH entry.
fn elf(address: u64, data: &[u8], entry: Option<u32>) -> Vec<u8> {
    const HEADER: usize = 64;
    const SEGMENT: usize = 56;
    let mut note = Vec::new();
    if let Some(entry) = entry {
        for word in [4, 4, 18_u32] {
            note.extend(word.to_le_bytes());
        }
        note.extend(b"Xen\0");
        note.extend(entry.to_le_bytes());
    }
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(HEADER, 0);
    (bytes[16], bytes[18], bytes[20], bytes[52]) = (2, 62, 1, 64);
    (bytes[32], bytes[54], bytes[56]) = (64, 56, 2);
    let data_at = HEADER + 2 * SEGMENT;
    let note_at = data_at + data.len();
    for (kind, at, address, length) in [
        (1_u32, data_at, address, data.len()),
        (4, note_at, 0, note.len()),
    ] {
        bytes.extend(kind.to_le_bytes());
        bytes.extend(0_u32.to_le_bytes());
        let [at, length] = [at, length].map(|number| u64::try_from(number).unwrap());
        // The loaded segment is larger in memory than in the file.
        for long in [at, 0, address, length, length + 0x3000, 4] {
            bytes.extend(long.to_le_bytes());
        }
    }
    [bytes, data.to_vec(), note].concat()
}

#[test]
fn a_kernel_lies_at_the_addresses_of_its_segments() {
    let kernel = FlatKernel::of(&elf(0x100_0000, b"code", Some(0x100_0123))).unwrap();
    assert_eq!((kernel.begin, kernel.end), (0x100_0000, 0x100_3004));
    assert_eq!(kernel.bytes, b"code");
    assert_eq!(kernel.entry, 0x100_0123);
}

#[test]
fn a_kernel_without_a_pvh_entry_is_refused() {
    assert!(FlatKernel::of(&elf(0x100_0000, b"code", None)).is_none());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"MZ and a compressed kernel").unwrap();
    let error = FlatKernel::read(file.path()).unwrap_err().to_string();
    assert!(
        error.contains("is not an ELF kernel with a PVH entry"),
        "{error}"
    );
}

#[test]
fn a_header_that_lies_about_its_segments_is_refused() {
    for (at, byte) in [(64 + 8, 0xff), (64 + 39, 0x7f), (56, 200)] {
        let mut bytes = elf(0x100_0000, b"code", Some(1));
        bytes[at] = byte;
        assert!(FlatKernel::of(&bytes).is_none(), "{at}");
    }
}

fn kernel(end: u64) -> FlatKernel {
    FlatKernel {
        begin: 0x100_0000,
        end,
        entry: 0x100_0123,
        bytes: Vec::new(),
    }
}

#[test]
fn a_kernel_over_the_start_information_or_above_4_gib_is_refused() {
    assert!(kernel(0x340_0000).fits());
    assert!(kernel(4 << 30).fits());
    for (begin, end) in [
        (0x20_0000, 0x340_0000),
        (0x100_0000, u64::MAX),
        (0x100_0000, (4 << 30) + 1),
    ] {
        let other = FlatKernel {
            begin,
            ..kernel(end)
        };
        assert!(!other.fits(), "{begin:#x} {end:#x}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), elf(0x20_0000, b"code", Some(0x20_0123))).unwrap();
    let error = FlatKernel::read(file.path()).unwrap_err().to_string();
    let said = "would be at 0x200000 to 0x203004, and the lab loads kernels between 0x900000 and 0x100000000";
    assert!(error.ends_with(said), "{error}");
}

#[test]
fn files_come_after_the_kernel_and_memory_that_is_too_small_is_refused() {
    let layout = MemoryLayout::new(&kernel(0x340_0001), 5 << 20, 128 << 20).unwrap();
    assert_eq!(layout.initrd, 0x360_0000);
    let error = MemoryLayout::new(&kernel(0x340_0001), 100 << 20, 128 << 20).unwrap_err();
    assert_eq!(
        error.to_string(),
        "out of memory: the kernel and the files need 155 MiB, and L1 has 128 MiB: use more --memory"
    );
}

#[test]
fn the_start_information_points_to_its_parts() {
    let layout = MemoryLayout::new(&kernel(0x340_0000), 5 << 20, 128 << 20).unwrap();
    let info = layout.start_information("console=ttyS0 a");
    let long = |at: usize| u64::from_le_bytes(*info[at..].first_chunk().unwrap());
    let word = |at: usize| u32::from_le_bytes(*info[at..].first_chunk().unwrap());
    let part = |address: u64| usize::try_from(address - INFO).unwrap();
    assert_eq!((word(0), word(4), word(12)), (0x336e_c578, 1, 1));
    let (module, line, map) = (part(long(16)), part(long(24)), part(long(40)));
    assert_eq!((long(module), long(module + 8)), (layout.initrd, 5 << 20));
    assert_eq!(&info[line..], b"console=ttyS0 a\0");
    // The largest range of memory ends where the BIOS's tables begin, and the tables end at the end of memory.
    let range = |index: usize| (long(map + index * 24), long(map + index * 24 + 8));
    assert_eq!(word(48), 6);
    assert_eq!(range(3), (1 << 20, (127 << 20) - ACPI));
    assert_eq!(range(4), ((128 << 20) - ACPI, ACPI));
}

#[test]
fn the_rom_is_one_that_a_bios_runs() {
    let rom = option_rom(0x1234_5678);
    assert_eq!(rom[..3], [0x55, 0xaa, 1]);
    let sum = rom.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    assert_eq!(sum, 0);
    // The jump over the header leads to the code, and the code to the entry.
    assert_eq!(5 + usize::from(rom[4]), CODE);
    let jump = rom
        .windows(7)
        .find(|code| code[0] == 0xb8 && code[5..] == [0xff, 0xe0]);
    assert_eq!(jump.unwrap()[1..5], 0x1234_5678_u32.to_le_bytes());
}
