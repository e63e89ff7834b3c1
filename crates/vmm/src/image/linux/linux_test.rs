#![cfg(all(target_arch = "x86_64", not(any(loom, miri))))]

use linux_loader::loader::bootparam::{boot_params, setup_header};
use linux_loader::loader::elf::start_info::{
    hvm_memmap_table_entry, hvm_modlist_entry, hvm_start_info,
};
use proptest::prelude::*;
use vm_memory::{ByteValued, Bytes, GuestAddress, GuestMemoryMmap};
use vmbell_hypervisor::EntryPoint;

use crate::{Boot, Image, ImageError, Module};

const RAM: u64 = 64 << 20;
const LOW: u64 = 0x9_fc00;
/// The memory map: first address, length and kind (1 is RAM) of each range.
const MAP: [(u64, u64, u32); 3] = [
    (0, LOW, 1),
    (LOW, 0x10_0000 - LOW, 2),
    (0x10_0000, RAM - 0x10_0000, 1),
];

fn memory(size: u64) -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), usize::try_from(size).unwrap())]).unwrap()
}

fn parse(bytes: &[u8]) -> Result<Image, ImageError> {
    Image::parse("dir/vmlinux".to_owned(), bytes)
}

fn read<T: ByteValued>(memory: &GuestMemoryMmap, at: u64) -> T {
    memory.read_obj(GuestAddress(at)).unwrap()
}

fn text(memory: &GuestMemoryMmap, at: u64) -> String {
    (at..)
        .map(|at| read::<u8>(memory, at))
        .take_while(|byte| *byte != 0)
        .map(char::from)
        .collect()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A note, padded to this alignment.
fn note(name: &[u8; 4], kind: u32, desc: &[u8], align: usize) -> Vec<u8> {
    let mut bytes = words(&[4, u32::try_from(desc.len()).unwrap(), kind]);
    bytes.extend(name);
    bytes.extend(desc);
    bytes.resize(bytes.len().next_multiple_of(align), 0);
    bytes
}

/// A 64-bit ELF with a segment of 4096 bytes at 16 MiB, and segments of notes with their alignment.
fn kernel(notes: &[(Vec<u8>, u64)]) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    let longs =
        |longs: &[u64]| -> Vec<u8> { longs.iter().flat_map(|long| long.to_le_bytes()).collect() };
    let count = 1 + notes.len();
    bytes.extend(words(&[0x003e_0002, 1]));
    bytes.extend(longs(&[0x100_0000, 64, 0]));
    let count_word = 0x0040_0000 | u32::try_from(count).unwrap();
    bytes.extend(words(&[0, 0x0038_0040, count_word, 0]));
    let mut at = 64 + 56 * count as u64;
    for (notes, align) in notes {
        let len = notes.len() as u64;
        bytes.extend(words(&[4, 0]));
        bytes.extend(longs(&[at, 0, 0, len, len, *align]));
        at += len;
    }
    bytes.extend(words(&[1, 7]));
    bytes.extend(longs(&[
        at,
        0xffff_ffff_8100_0000,
        0x100_0000,
        4,
        4096,
        4096,
    ]));
    bytes.extend(notes.iter().flat_map(|(notes, _)| notes));
    bytes.extend(b"code");
    bytes
}

/// A kernel with one note.
fn vmlinux(name: &[u8; 4], kind: u32, entry: u32) -> Vec<u8> {
    kernel(&[(note(name, kind, &words(&[entry, 0]), 4), 4)])
}

/// A bzImage with two sectors before the kernel, which unpacks itself to 16 MiB and takes 8 MiB.
fn bzimage(version: u16) -> Vec<u8> {
    let header = setup_header {
        setup_sects: 1,
        boot_flag: 0xaa55,
        jump: 0x66eb,
        header: 0x5372_6448,
        version,
        loadflags: 1,
        code32_start: 0x10_0000,
        initrd_addr_max: 0x37ff_ffff,
        cmdline_size: 2047,
        pref_address: 16 << 20,
        init_size: 8 << 20,
        ..setup_header::default()
    };
    let mut bytes = vec![0; 1024];
    bytes[0x1f1..][..header.as_slice().len()].copy_from_slice(header.as_slice());
    bytes.extend(b"code");
    bytes
}

fn boot(initrd: Option<&[u8]>) -> Boot {
    Boot {
        arguments: "console=ttyS0 quiet".to_owned(),
        initrd: initrd.map(|bytes| bytes.to_vec().into()),
        ..Boot::default()
    }
}

#[test]
fn kernel_with_a_pvh_note_finds_its_start_information_in_ebx() {
    let memory = memory(RAM);
    let image = parse(&vmlinux(b"Xen\0", 18, 0x100_0123)).unwrap();
    assert!(image.is_kernel());
    let entry = image.load(&memory, &boot(Some(b"files"))).unwrap();
    let EntryPoint::Protected { pc, ebx, .. } = entry else {
        panic!("{entry:?}");
    };
    assert_eq!(pc, 0x100_0123);
    assert_eq!(text(&memory, 0x100_0000), "code");
    let info: hvm_start_info = read(&memory, ebx.into());
    assert_eq!((info.magic, info.version), (0x336e_c578, 1));
    assert_eq!(text(&memory, info.cmdline_paddr), "console=ttyS0 quiet");
    assert_eq!(info.rsdp_paddr, 0xe_0000);
    assert_eq!(info.nr_modules, 1);
    let module: hvm_modlist_entry = read(&memory, info.modlist_paddr);
    assert_eq!((module.paddr, module.size), (RAM - 4096, 5));
    assert_eq!(text(&memory, module.paddr), "files");
    let entries = (0..u64::from(info.memmap_entries)).map(|index| {
        let at = info.memmap_paddr + 24 * index;
        let entry: hvm_memmap_table_entry = read(&memory, at);
        (entry.addr, entry.size, entry.type_)
    });
    assert_eq!(entries.collect::<Vec<_>>(), MAP);
}

#[test]
fn pvh_note_is_found_wherever_it_is_among_others() {
    const ENTRY: u32 = 0x100_0123;
    let xen = |align| note(b"Xen\0", 18, &words(&[ENTRY]), align);
    let long = |align| note(b"Xen\0", 18, &words(&[ENTRY, 0]), align);
    let build = |align| note(b"GNU\0", 3, &[0xaa; 20], align);
    let property = note(b"GNU\0", 5, &[0; 16], 8);
    let broken = [&words(&[4, 0x1000, 1])[..], b"foo\0"].concat();
    let zeros = [0; 8].to_vec();
    for segments in [
        // Merged by a linker: the segment has the alignment of its first note.
        vec![(vec![property, build(4), xen(4)], 8)],
        vec![(vec![build(4), xen(4)], 8)],
        vec![(vec![xen(4), build(4)], 8)],
        vec![(vec![build(4), long(4)], 8)],
        vec![(vec![build(8), xen(8)], 8)],
        vec![(vec![build(4), xen(4)], 16)],
        vec![(vec![build(4)], 16), (vec![xen(4)], 4)],
        vec![(vec![xen(4)], 3)],
        // A malformed note before the entry point's note.
        vec![(vec![broken.clone()], 4), (vec![xen(4)], 4)],
        vec![(vec![broken, xen(4)], 4)],
        vec![(vec![note(b"Lin\0", 1, b"x", 4), zeros, xen(4)], 4)],
        vec![(vec![note(b"Xen\0", 18, b"", 4), xen(4)], 4)],
    ] {
        let segments: Vec<_> = segments
            .into_iter()
            .map(|(notes, align)| (notes.concat(), align))
            .collect();
        let image =
            parse(&kernel(&segments)).unwrap_or_else(|error| panic!("{segments:?}: {error}"));
        let entry = image.load(&memory(RAM), &boot(None)).unwrap();
        assert!(
            matches!(entry, EntryPoint::Protected { pc: ENTRY, .. }),
            "{segments:?}: {entry:?}"
        );
    }
}

#[test]
fn bzimage_finds_its_boot_parameters_in_esi() {
    let memory = memory(RAM);
    let image = parse(&bzimage(0x020f)).unwrap();
    let entry = image.load(&memory, &boot(Some(b"files"))).unwrap();
    let EntryPoint::Protected { pc, ebx, esi, .. } = entry else {
        panic!("{entry:?}");
    };
    assert_eq!((pc, ebx), (0x10_0000, 0));
    assert_eq!(text(&memory, 0x10_0000), "code");
    let parameters: boot_params = read(&memory, esi.into());
    let header = parameters.hdr;
    assert_eq!({ header.header }, 0x5372_6448);
    assert_eq!(header.type_of_loader, 0xff);
    assert_eq!(
        text(&memory, header.cmd_line_ptr.into()),
        "console=ttyS0 quiet"
    );
    assert_eq!(
        ({ header.ramdisk_image }, { header.ramdisk_size }),
        (0x3ff_f000, 5)
    );
    assert_eq!({ parameters.acpi_rsdp_addr }, 0xe_0000);
    let entries = &parameters.e820_table[..usize::from(parameters.e820_entries)];
    let entries = entries
        .iter()
        .map(|entry| (entry.addr, entry.size, entry.r#type));
    assert_eq!(entries.collect::<Vec<_>>(), MAP);
}

#[test]
fn header_of_a_later_version_does_not_reach_the_memory_map() {
    let memory = memory(RAM);
    let mut file = bzimage(0x020f);
    file[0x201] = 0xff;
    file[0x268..0x301].fill(0xee);
    let entry = parse(&file).unwrap().load(&memory, &boot(None)).unwrap();
    let EntryPoint::Protected { esi, .. } = entry else {
        panic!("{entry:?}");
    };
    let parameters: boot_params = read(&memory, esi.into());
    assert_eq!({ parameters.hdr.kernel_info_offset }, 0xeeee_eeee);
    assert_eq!({ parameters.edd_mbr_sig_buffer }, [0; 16]);
    let last = parameters.e820_table[MAP.len()];
    assert_eq!(({ last.addr }, { last.size }), (0, 0));
    let first = parameters.e820_table[0];
    assert_eq!(({ first.addr }, { first.size }, { first.r#type }), MAP[0]);
}

#[test]
fn linux_loader_finds_the_same_entry_points() {
    use linux_loader::loader::elf::PvhBootCapability;
    use linux_loader::loader::{BzImage, Elf, KernelLoader};

    let memory = memory(RAM);
    let file = vmlinux(b"Xen\0", 18, 0x100_0123);
    let theirs = Elf::load(&memory, None, &mut std::io::Cursor::new(&file), None).unwrap();
    let entry = PvhBootCapability::PvhEntryPresent(GuestAddress(0x100_0123));
    assert_eq!(theirs.pvh_boot_cap, entry);
    let file = bzimage(0x020f);
    let theirs = BzImage::load(&memory, None, &mut std::io::Cursor::new(&file), None).unwrap();
    assert_eq!(theirs.kernel_load, GuestAddress(0x10_0000));
}

#[test]
fn note_that_is_not_the_entry_point_is_none() {
    for file in [
        vmlinux(b"GNU\0", 18, 0x100_0123),
        vmlinux(b"Xen\0", 17, 0x100_0123),
    ] {
        let error = parse(&file).unwrap_err().to_string();
        assert!(
            error.contains("without a note of its PVH entry point"),
            "{error}"
        );
    }
    let error = parse(&vmlinux(b"Xen\0", 18, 0x200_0000)).unwrap_err();
    assert!(error.to_string().contains("begins at 0x2000000"), "{error}");
}

#[test]
fn kernels_for_another_cpu_and_too_old_ones_are_refused_by_name() {
    let mut arm64 = vec![0; 64];
    arm64[0x38..].copy_from_slice(b"ARM\x64\0\0\0\0");
    let error = parse(&arm64).unwrap_err().to_string();
    assert!(error.contains(": built for arm64, but"), "{error}");
    let mut elf = vmlinux(b"Xen\0", 18, 0x100_0123);
    elf[18] = 183;
    let error = parse(&elf).unwrap_err().to_string();
    assert!(error.contains(": built for ELF machine 183"), "{error}");
    let error = parse(&bzimage(0x0209)).unwrap_err().to_string();
    assert!(
        error.contains("0x0209") && error.contains("2.6.31"),
        "{error}"
    );
}

#[test]
fn kernel_and_initrd_that_do_not_fit_are_refused_with_both_sizes() {
    let load = |file: &[u8], ram, initrd: &[u8]| {
        let loaded = parse(file).unwrap().load(&memory(ram), &boot(Some(initrd)));
        loaded.unwrap_err().to_string()
    };
    let error = load(&bzimage(0x020f), 20 << 20, b"");
    assert!(
        error.contains("needs 24576 KiB") && error.contains("has 20480 KiB"),
        "{error}"
    );
    let initrd = vec![1; 9 << 20];
    for file in [bzimage(0x020f), vmlinux(b"Xen\0", 18, 0x100_0123)] {
        let error = load(&file, 24 << 20, &initrd);
        assert!(error.contains("initrd of 9437184 bytes"), "{error}");
        assert!(error.contains("--memory"), "{error}");
    }
    // The kernel says that an initrd goes below 30 MiB, so more memory does not help.
    let mut file = bzimage(0x020f);
    file[0x22c..0x230].copy_from_slice(&0x1df_ffff_u32.to_le_bytes());
    let error = load(&file, 64 << 20, &initrd);
    assert!(!error.contains("--memory"), "{error}");
    let expected = "6291456 bytes are free, and no machine has more than 6291456 bytes";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn initrd_stays_below_what_the_kernel_can_reach() {
    let mut file = bzimage(0x020f);
    file[0x22c..0x230].copy_from_slice(&0x1ff_ffff_u32.to_le_bytes());
    let memory = memory(RAM);
    parse(&file)
        .unwrap()
        .load(&memory, &boot(Some(b"files")))
        .unwrap();
    assert_eq!(text(&memory, (32 << 20) - 4096), "files");
}

#[test]
fn files_that_an_image_has_no_use_for_are_refused() {
    let environment = Boot {
        environment: Some(Vec::new().into()),
        ..Boot::default()
    };
    let modules = Boot {
        modules: vec![Module {
            command_line: String::new(),
            file: Vec::new().into(),
        }],
        ..Boot::default()
    };
    for (boot, message) in [
        (environment, "no use for an environment file (--env)"),
        (modules, "no use for modules"),
    ] {
        let image = parse(&bzimage(0x020f)).unwrap();
        let error = image.load(&memory(RAM), &boot).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

/// A note that each kernel of Linux has. Its name is longer than the name of the entry point's note.
fn linux_note() -> Vec<u8> {
    let mut bytes = words(&[6, 4, 0x100]);
    bytes.extend(b"Linux\0\0\0salt");
    bytes
}

#[test]
fn command_line_that_linux_would_cut_is_refused_whichever_way_the_kernel_is_booted() {
    let entry = || note(b"Xen\0", 18, &words(&[0x100_0123, 0]), 4);
    let linux = [
        bzimage(0x020f),
        kernel(&[([linux_note(), entry()].concat(), 4)]),
        kernel(&[([entry(), linux_note()].concat(), 8)]),
        kernel(&[(entry(), 4), (linux_note(), 4)]),
    ];
    let load = |file: &[u8], len: usize| {
        let boot = Boot {
            arguments: "x".repeat(len),
            ..Boot::default()
        };
        parse(file).unwrap().load(&memory(RAM), &boot)
    };
    for file in linux {
        load(&file, 2047).unwrap();
        let error = load(&file, 2048).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("has 2048 bytes, but may have 2047"),
            "{error}"
        );
    }
    // A kernel that is not Linux has other limits.
    load(&kernel(&[(entry(), 4)]), 60_000).unwrap();
}

proptest! {
    #[test]
    fn any_bytes_in_a_header_are_survived(
        at in 0x1f1_usize..0x270,
        bytes in prop::collection::vec(any::<u8>(), 1..16),
        len in 0_usize..1028,
        initrd in 0_usize..9000,
    ) {
        let mut file = bzimage(0x020f);
        let end = (at + bytes.len()).min(file.len());
        file[at..end].copy_from_slice(&bytes[..end - at]);
        if len < 512 {
            file.truncate(len + 512);
        }
        if let Ok(image) = parse(&file) {
            let _ = image.load(&memory(RAM), &boot(Some(&vec![1; initrd])));
        }
    }

    #[test]
    fn any_bytes_in_notes_are_survived(
        at in 0_usize..200,
        bytes in prop::collection::vec(any::<u8>(), 1..16),
    ) {
        let mut file = vmlinux(b"Xen\0", 18, 0x100_0123);
        let end = (at + bytes.len()).min(file.len());
        file[at..end].copy_from_slice(&bytes[..end - at]);
        if let Ok(image) = parse(&file) {
            let _ = image.load(&memory(RAM), &boot(None));
        }
    }
}
