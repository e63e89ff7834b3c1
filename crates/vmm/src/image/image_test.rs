use proptest::prelude::*;
use vm_memory::ByteValued;

use super::*;

const RAM: u64 = 16 << 20;
const MAGIC: u32 = 0x1bad_b002;

fn ram() -> GuestMemoryMmap {
    let size = usize::try_from(RAM).unwrap();
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), size)]).unwrap()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn header(flags: u32) -> Vec<u8> {
    let checksum = 0_u32.wrapping_sub(MAGIC).wrapping_sub(flags);
    words(&[MAGIC, flags, checksum])
}

/// A flat file with its header at `pad`, as if loaded at 1 MiB.
fn flat(pad: usize, load_end: u32, bss_end: u32, entry: u32) -> Vec<u8> {
    let mut bytes = vec![0x90; pad];
    bytes.extend(header(1 << 16));
    let header_at = 0x10_0000 + u32::try_from(pad).unwrap();
    bytes.extend(words(&[header_at, 0x10_0000, load_end, bss_end, entry]));
    bytes.extend(b"code");
    bytes
}

/// A 32-bit ELF with one segment, whose bytes are a Multiboot header and `code`.
fn elf32(flags: u32, physical: u32, len: u32) -> Vec<u8> {
    let mut contents = header(flags);
    contents.extend(b"code");
    let mut bytes = b"\x7fELF\x01\x01\x01".to_vec();
    bytes.resize(16, 0);
    // Type EXEC, machine 386; version, entry (virtual), program headers; sizes.
    bytes.extend(words(&[0x0003_0002, 1, 0xc000_000c, 52, 0, 0]));
    bytes.extend(words(&[0x0020_0034, 0x0028_0001, 0]));
    let filled = u32::try_from(contents.len()).unwrap();
    bytes.extend(words(&[1, 84, 0xc000_0000, physical, filled, len, 7, 4]));
    bytes.extend(contents);
    bytes
}

/// A 64-bit ELF with the same segment.
fn elf64(physical: u64) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend(words(&[0x003e_0002, 1]));
    bytes.extend(
        [0x20_0010_u64, 64, 0]
            .iter()
            .flat_map(|word| word.to_le_bytes()),
    );
    bytes.extend(words(&[0, 0x0038_0040, 0x0040_0001, 0]));
    bytes.extend(words(&[1, 7]));
    for word in [120, 0x20_0000, physical, 16, 64, 4096] {
        bytes.extend(u64::to_le_bytes(word));
    }
    bytes.extend(header(0));
    bytes.extend(b"code");
    bytes
}

fn parse(bytes: &[u8]) -> Result<Image, ImageError> {
    Image::parse("dir/an image.flat".to_owned(), bytes)
}

fn load(bytes: &[u8], boot: &Boot) -> (GuestMemoryMmap, EntryPoint) {
    let memory = ram();
    let entry = parse(bytes).unwrap().load(&memory, boot).unwrap();
    (memory, entry)
}

fn read<T: ByteValued>(memory: &GuestMemoryMmap, at: u32) -> T {
    memory.read_obj(GuestAddress(at.into())).unwrap()
}

fn text(memory: &GuestMemoryMmap, at: u32) -> String {
    (at..)
        .map(|at| read::<u8>(memory, at))
        .take_while(|byte| *byte != 0)
        .map(char::from)
        .collect()
}

#[test]
fn elf_of_32_bits_is_loaded_where_it_says_and_entered_by_its_physical_address() {
    let (memory, entry) = load(&elf32(0, 0x40_0000, 64), &Boot::default());
    let expected = EntryPoint::Protected {
        pc: 0x40_000c,
        eax: 0x2bad_b002,
        ebx: 0x9_0000,
        esi: 0,
    };
    assert_eq!(entry, expected);
    assert_eq!(read::<u32>(&memory, 0x40_0000), MAGIC);
    assert_eq!(text(&memory, 0x40_000c), "code");
}

#[test]
fn elf_of_64_bits_with_a_header_is_entered_in_32() {
    let (memory, entry) = load(&elf64(0x30_0000), &Boot::default());
    assert!(
        matches!(entry, EntryPoint::Protected { pc: 0x30_0010, .. }),
        "{entry:x?}"
    );
    assert_eq!(read::<u32>(&memory, 0x30_0000), MAGIC);
}

#[test]
fn flat_file_goes_where_its_header_says() {
    let file = flat(8, 0, 0, 0x10_0028);
    let (memory, entry) = load(&file, &Boot::default());
    assert!(
        matches!(entry, EntryPoint::Protected { pc: 0x10_0028, .. }),
        "{entry:x?}"
    );
    assert_eq!(read::<u8>(&memory, 0x10_0000), 0x90);
    assert_eq!(text(&memory, 0x10_0028), "code");
}

#[test]
fn addresses_that_make_no_sense_are_refused() {
    let wrong = [
        (
            flat(8, 0x0f_0000, 0, 0x10_0000),
            "load_end_addr is below load_addr",
        ),
        (
            flat(8, 0x20_0000, 0, 0x10_0000),
            "load_end_addr is after the end",
        ),
        (flat(8, 0, 0x10_0001, 0x10_0000), "bss_end_addr is below"),
        (flat(8, 0, 0, 0x20_0000), "begins at 0x200000"),
    ];
    for (file, message) in wrong {
        let error = parse(&file).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    // The header claims to be loaded before the start of the file.
    let mut file = flat(8, 0, 0, 0x10_0000);
    file[8 + 12..8 + 16].copy_from_slice(&0x10_0009_u32.to_le_bytes());
    let error = parse(&file).unwrap_err().to_string();
    assert!(error.contains("before the start of the file"), "{error}");
}

#[test]
fn what_is_no_image_is_refused_with_its_name_and_advice() {
    let elf_without = {
        let mut file = elf32(0, 0x40_0000, 64);
        file[84] ^= 1;
        file
    };
    let cases: [(Vec<u8>, &str); 5] = [
        (
            b"#!/bin/sh\n".to_vec(),
            "neither an ELF nor a bzImage, and no multiboot header",
        ),
        (
            Vec::new(),
            "neither an ELF nor a bzImage, and no multiboot header",
        ),
        (elf_without, ": an ELF without a multiboot header"),
        (header(0), "is not an ELF, so nothing says where it goes"),
        (elf32(0, 0x40_0000, 64)[..90].to_vec(), "a part is missing"),
    ];
    for (file, message) in cases {
        let error = parse(&file).unwrap_err().to_string();
        assert!(error.contains("an image.flat"), "{error}");
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn header_is_found_in_the_first_8192_bytes_only() {
    assert!(parse(&flat(8192 - 32, 0, 0, 0x10_0000)).is_ok());
    assert!(
        parse(&flat(8192 - 28, 0, 0, 0x10_0000)).is_err(),
        "its end is outside"
    );
    assert!(parse(&flat(8192, 0, 0, 0x10_0000)).is_err());
    assert!(
        parse(&flat(6, 0, 0, 0x10_0000)).is_err(),
        "no multiple of four"
    );
}

#[test]
fn requirements_that_are_not_known_are_refused_by_their_bits() {
    for (flags, message) in [
        (1 << 3, "0x0008"),
        (1 << 7, "0x0080"),
        (1 << 15 | 1, "0x8000"),
    ] {
        let error = parse(&elf32(flags, 0x40_0000, 64)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    // The loader has the features of bits 0 and 1 (page-aligned modules, memory information); it may ignore the
    // upper half.
    assert!(parse(&elf32(0b11 | 1 << 17, 0x40_0000, 64)).is_ok());
}

#[test]
fn an_image_that_prefers_a_video_mode_is_told_of_none() {
    let (memory, _) = load(&elf32(1 << 2, 0x40_0000, 64), &Boot::default());
    let flags: u32 = read(&memory, 0x9_0000);
    let (vbe, framebuffer) = (1 << 11, 1 << 12);
    assert_eq!(flags & (vbe | framebuffer), 0);
}

#[test]
fn elf_for_another_machine_or_with_missing_bytes_is_refused() {
    let mut file = elf32(0, 0x40_0000, 64);
    file[18] = 40;
    let error = parse(&file).unwrap_err().to_string();
    assert!(error.contains("built for ELF machine 40"), "{error}");
    let file = elf32(0, 0x40_0000, 64);
    let error = parse(&file[..file.len() - 1]).unwrap_err().to_string();
    assert!(error.contains("a part is missing"), "{error}");
    let mut file = elf32(0, 0x40_0000, 64);
    file[52] = 2;
    let error = parse(&file).unwrap_err().to_string();
    assert!(error.contains("no segment to load"), "{error}");
}

#[test]
fn zeros_of_an_image_replace_what_a_bios_left() {
    let memory = ram();
    memory.write_slice(&[0xff; 0x600], GuestAddress(0)).unwrap();
    // 16 bytes of the file from 0x100 on, and zeros up to 0x700.
    let image = parse(&elf32(0, 0x100, 0x600)).unwrap();
    image.load(&memory, &Boot::default()).unwrap();
    let mut low = [0; 0x600];
    memory.read_slice(&mut low, GuestAddress(0)).unwrap();
    assert_eq!(low[..0x100], [0xff; 0x100]);
    assert_eq!(low[0x110..0x500], [0; 0x3f0]);
}

#[test]
fn image_that_does_not_fit_is_refused_with_both_sizes() {
    let image = parse(&elf32(0, 0x40_0000, 0x800_0000)).unwrap();
    let error = image
        .load(&ram(), &Boot::default())
        .unwrap_err()
        .to_string();
    let expected = "dir/an image.flat: needs 135168 KiB of memory, but the machine has 16384 KiB: give the machine more memory (--memory)";
    assert_eq!(error, expected);
    // The segment ends a page above 3 GiB, where no machine has RAM.
    let image = parse(&elf32(0, 0x40_0000, 0xbfc0_1000)).unwrap();
    let error = image.load(&ram(), &Boot::default()).unwrap_err();
    let expected = "needs 3145732 KiB of memory, but the machine has 16384 KiB, and no machine has more than 3221225472 bytes";
    assert!(error.to_string().ends_with(expected), "{error}");
}

#[test]
fn segment_on_tables_or_firmware_is_refused() {
    for physical in [0x8_fff8, 0x9_0000, 0xe_0000, 0xf_fff8] {
        let image = parse(&elf32(0, physical, 64)).unwrap();
        let error = image
            .load(&ram(), &Boot::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("is not in RAM that it may use"), "{error}");
    }
    for physical in [0, 0x8_ffc0, 0x10_0000] {
        let image = parse(&elf32(0, physical, 64)).unwrap();
        image.load(&ram(), &Boot::default()).unwrap();
    }
}

#[test]
fn command_line_begins_with_the_name_of_the_image() {
    let boot = Boot {
        arguments: "a b=c".to_owned(),
        ..Boot::default()
    };
    let (memory, _) = load(&elf32(0, 0x40_0000, 64), &boot);
    let at: u32 = read(&memory, 0x9_0000 + 16);
    assert_eq!(text(&memory, at), "an_image.flat a b=c");
    let (memory, _) = load(&elf32(0, 0x40_0000, 64), &Boot::default());
    let at: u32 = read(&memory, 0x9_0000 + 16);
    assert_eq!(text(&memory, at), "an_image.flat");
}

#[test]
fn memory_is_described_within_its_bounds() {
    let (memory, _) = load(&elf32(0, 0x40_0000, 64), &Boot::default());
    let flags: u32 = read(&memory, 0x9_0000);
    assert_eq!(flags, 0b10_0100_0101);
    assert_eq!(read::<u32>(&memory, 0x9_0004), 639);
    let upper = u64::from(read::<u32>(&memory, 0x9_0008)) << 10;
    // With both readings of the field, the address is inside RAM.
    assert_eq!(upper + (1 << 20), RAM);
    let (len, at): (u32, u32) = (read(&memory, 0x9_002c), read(&memory, 0x9_0030));
    let entries: Vec<(u64, u64, u32)> = (0..len / 24)
        .map(|index| at + 24 * index)
        .map(|at| {
            assert_eq!(read::<u32>(&memory, at), 20);
            (
                read(&memory, at + 4),
                read(&memory, at + 12),
                read(&memory, at + 20),
            )
        })
        .collect();
    let expected = [
        (0, 0x9_fc00, 1),
        (0x9_fc00, 0x6_0400, 2),
        (0x10_0000, RAM - 0x10_0000, 1),
    ];
    assert_eq!(entries, expected);
    assert_eq!(text(&memory, read(&memory, 0x9_0040)), "vmbell");
}

fn module(command_line: &str, bytes: Vec<u8>) -> Module {
    Module {
        command_line: command_line.to_owned(),
        file: bytes.into(),
    }
}

/// Returns the text, the bytes and the first address of each module that the image finds.
fn modules(memory: &GuestMemoryMmap) -> Vec<(String, Vec<u8>, u32)> {
    let (flags, count): (u32, u32) = (read(memory, 0x9_0000), read(memory, 0x9_0000 + 20));
    assert_eq!(flags >> 3 & 1, u32::from(count > 0));
    let table: u32 = read(memory, 0x9_0000 + 24);
    let module = |at: u32| {
        let [first, end, command_line]: [u32; 3] = [0, 4, 8].map(|field| read(memory, at + field));
        let mut bytes = vec![0; (end - first) as usize];
        memory
            .read_slice(&mut bytes, GuestAddress(first.into()))
            .unwrap();
        (text(memory, command_line), bytes, first)
    };
    (0..count).map(|index| module(table + 16 * index)).collect()
}

#[test]
fn modules_of_any_number_and_size_follow_the_image_each_on_its_page() {
    let sizes = [0, 1, 4096, 4097, 1 << 20];
    let bytes = |index: usize| vec![u8::try_from(index % 251).unwrap() + 1; sizes[index % 5]];
    for count in [1, 5, 40] {
        let given = (0..count).map(|index| module(&format!("m{index} a b=c"), bytes(index)));
        let boot = Boot {
            modules: given.collect(),
            ..Boot::default()
        };
        for flags in [0, 1] {
            let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 64 << 20)]).unwrap();
            let image = parse(&elf32(flags, 0x40_0000, 0x1234)).unwrap();
            image.load(&memory, &boot).unwrap();
            let found = modules(&memory);
            assert_eq!(found.len(), count);
            let mut free = 0x40_1234;
            for (index, (text, contents, first)) in found.into_iter().enumerate() {
                assert_eq!(text, format!("m{index} a b=c"));
                assert_eq!(contents, bytes(index), "{index}");
                assert!(first >= free && first % 4096 == 0, "{first:#x}");
                free = first + u32::try_from(contents.len()).unwrap();
            }
        }
    }
}

#[test]
fn an_environment_is_the_first_module_and_those_of_an_image_in_low_memory_are_above_it() {
    let boot = Boot {
        environment: Some(b"NR_CPUS=2\n".to_vec().into()),
        modules: vec![module("second", vec![7; 3])],
        ..Boot::default()
    };
    let (memory, _) = load(&elf32(0, 0x8000, 64), &boot);
    let expected = [
        (String::new(), b"NR_CPUS=2\n".to_vec(), 0x10_0000),
        ("second".to_owned(), vec![7; 3], 0x10_1000),
    ];
    assert_eq!(modules(&memory), expected);
}

#[test]
fn modules_that_do_not_fit_are_refused() {
    let image = parse(&elf32(0, 0x40_0000, 64)).unwrap();
    let refusal = |modules| {
        let boot = Boot {
            modules,
            ..Boot::default()
        };
        image.load(&ram(), &boot).unwrap_err().to_string()
    };
    // RAM has 12 MiB after the image's page.
    let room = (12 << 20) - 4096;
    let last = |more: usize| module("m", vec![1; room + more]);
    let boot = Boot {
        modules: vec![last(0)],
        ..Boot::default()
    };
    image.load(&ram(), &boot).unwrap();
    for modules in [vec![last(1)], vec![last(0), module("m", vec![1])]] {
        let error = refusal(modules);
        assert!(error.contains("bytes are free"), "{error}");
    }
    let error = refusal(vec![module(&"x".repeat(0x1_0000), Vec::new())]);
    assert!(error.contains("there is room for 64512"), "{error}");
}

#[test]
fn files_that_an_image_has_no_use_for_are_refused() {
    let boot = Boot {
        initrd: Some(Vec::new().into()),
        ..Boot::default()
    };
    let image = parse(&elf32(0, 0x40_0000, 64)).unwrap();
    let error = image.load(&ram(), &boot).unwrap_err().to_string();
    assert!(error.contains("has no use for an initrd"), "{error}");
}

#[test]
fn file_that_is_not_there_is_named() {
    let error = Image::open(Path::new("/nowhere/x.flat")).unwrap_err();
    assert_eq!(error.to_string(), "/nowhere/x.flat: cannot read the image");
}

proptest! {
    /// A damaged file is an image or an error, and what is loaded stays in RAM.
    #[test]
    fn any_file_is_survived(
        base in prop_oneof![
            Just(elf32(0, 0x40_0000, 64)),
            Just(elf64(0x30_0000)),
            Just(flat(8, 0, 0x20_0000, 0x10_0028)),
        ],
        damage in prop::collection::vec((0_usize..160, any::<u8>()), 0..6),
        cut in 0_usize..200,
    ) {
        let mut file = base;
        for (at, byte) in damage {
            if let Some(place) = file.get_mut(at) {
                *place = byte;
            }
        }
        file.truncate(cut.max(1));
        if let Ok(image) = parse(&file) {
            let _ = image.load(&ram(), &Boot::default());
        }
    }

    #[test]
    fn any_bytes_with_a_header_are_survived(mut bytes in prop::collection::vec(any::<u8>(), 64..512), elf: bool) {
        let header = header(if elf { 0 } else { 1 << 16 });
        bytes[32..44].copy_from_slice(&header);
        if elf {
            bytes[..4].copy_from_slice(b"\x7fELF");
        }
        if let Ok(image) = parse(&bytes) {
            let _ = image.load(&ram(), &Boot::default());
        }
    }
}
