#![cfg(not(any(loom, miri)))]

use proptest::prelude::*;
use vm_memory::{Bytes, GuestAddress};

use super::*;

const RAM: usize = 16 << 20;

/// Where RAM begins.
const BASE: u64 = 0x4000_0000;
const END: u64 = BASE + RAM as u64;

fn memory(size: usize) -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(BASE), size)]).unwrap()
}

/// An Image of 68 bytes that takes `size` bytes.
fn image(text_offset: u64, size: u64) -> Vec<u8> {
    let mut file = vec![0; 68];
    file[..4].copy_from_slice(b"code");
    file[8..16].copy_from_slice(&text_offset.to_le_bytes());
    file[16..24].copy_from_slice(&size.to_le_bytes());
    file[56..60].copy_from_slice(b"ARM\x64");
    file[64..].copy_from_slice(b"more");
    file
}

fn parse(file: &[u8]) -> Result<Arm64Image, ImageError> {
    Arm64Image::parse("dir/Image".to_owned(), file)
}

fn boot(initrd: &[u8]) -> Boot {
    Boot {
        initrd: Some(initrd.to_vec().into()),
        ..Boot::default()
    }
}

fn bytes<const LEN: usize>(memory: &GuestMemoryMmap, at: u64) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    memory.read_slice(&mut bytes, GuestAddress(at)).unwrap();
    bytes
}

/// A file without a header.
fn flat(len: usize) -> Vec<u8> {
    let mut file = vec![0; len];
    // b .
    file[..4].copy_from_slice(&0x1400_0000_u32.to_le_bytes());
    file
}

#[test]
fn kernel_goes_to_its_offset_with_the_tree_above_and_the_initrd_at_the_end_of_ram() {
    let memory = memory(RAM);
    let loaded = parse(&image(0x28_0000, 2 << 20)).unwrap();
    assert!(loaded.is_kernel());
    let loaded = loaded.load(&memory, &boot(b"files")).unwrap();
    let last_page = END - 4096;
    assert_eq!(
        loaded,
        Loaded {
            entry: BASE + 0x28_0000,
            tree: BASE + (6 << 20),
            initrd: Some((last_page, 5))
        }
    );
    assert_eq!(&bytes(&memory, BASE + 0x28_0000), b"code");
    assert_eq!(&bytes(&memory, BASE + 0x28_0040), b"more");
    assert_eq!(&bytes(&memory, last_page), b"files");
}

#[test]
fn file_without_a_header_goes_to_512_kib_and_has_half_of_ram_up_to_128_mib() {
    let memory = memory(RAM);
    let loaded = parse(&flat(1000)).unwrap();
    assert!(!loaded.is_kernel());
    let loaded = loaded.load(&memory, &Boot::default()).unwrap();
    assert_eq!(loaded.entry, BASE + 0x8_0000);
    assert_eq!(loaded.tree, BASE + RAM as u64 / 2);
    assert_eq!(bytes(&memory, loaded.entry), 0x1400_0000_u32.to_le_bytes());
    // A kernel that does not say its size goes to the same address.
    let old = parse(&image(0x1234, 0)).unwrap();
    assert_eq!(old.load(&memory, &Boot::default()).unwrap(), loaded);
    let large = flat(9 << 20);
    let large = parse(&large).unwrap().load(&memory, &Boot::default());
    assert_eq!(large.unwrap().tree, BASE + (10 << 20));
    let ram = self::memory(512 << 20);
    let loaded = parse(&flat(1000)).unwrap().load(&ram, &Boot::default());
    assert_eq!(loaded.unwrap().tree, BASE + (128 << 20));
}

#[test]
fn initrd_of_a_file_without_a_header_may_be_its_environment() {
    let (memory, image) = (memory(RAM), parse(&flat(8)).unwrap());
    let environment = Some(b"A=1\n".to_vec().into());
    let mut boot = Boot {
        environment,
        ..Boot::default()
    };
    let loaded = image.load(&memory, &boot).unwrap();
    assert_eq!(loaded.initrd, Some((END - 4096, 4)));
    assert_eq!(&bytes(&memory, END - 4096), b"A=1\n");
    boot.initrd = Some(Vec::new().into());
    let error = image.load(&memory, &boot).unwrap_err().to_string();
    assert!(error.contains("in addition to its initrd"), "{error}");
}

#[test]
fn kernel_and_initrd_that_do_not_fit_are_refused_with_both_sizes() {
    let load = |size: u64, initrd: &[u8]| {
        let loaded = parse(&image(0, size)).unwrap();
        let loaded = loaded.load(&memory(RAM), &boot(initrd));
        loaded.unwrap_err().to_string()
    };
    let error = load(15 << 20, b"");
    assert!(
        error.contains("needs 18432 KiB") && error.contains("has 16384 KiB"),
        "{error}"
    );
    let error = load(8 << 20, &vec![1; 7 << 20]);
    assert!(error.contains("initrd of 7340032 bytes"), "{error}");
    assert!(error.contains("6291456 bytes are free"), "{error}");
    let error = load(1 << 20, &vec![1; 17 << 20]);
    assert!(error.contains("--memory"), "{error}");
    // Bytes past the size in the header are also loaded.
    let mut file = image(0, 8);
    file.resize(15 << 20, 1);
    for file in [file, flat(15 << 20), flat(17 << 20)] {
        let error = parse(&file).unwrap().load(&memory(RAM), &Boot::default());
        assert!(
            matches!(
                error,
                Err(ImageError {
                    kind: ImageErrorKind::TooLarge { .. },
                    ..
                })
            ),
            "{error:?}"
        );
    }
    let error = parse(&flat(8)).unwrap();
    let error = error.load(&memory(2 << 20), &Boot::default()).unwrap_err();
    assert!(error.to_string().contains("needs 4096 KiB"), "{error}");
}

#[test]
fn compressed_kernels_are_refused_with_the_command_that_unpacks_them() {
    let refused = |file: &[u8]| parse(file).unwrap_err().to_string();
    let error = refused(&[0x1f, 0x8b, 8, 0]);
    assert!(error.contains("`gzip -dc <'dir/Image' >Image`"), "{error}");
    let error = refused(&[0x28, 0xb5, 0x2f, 0xfd, 0]);
    assert!(error.contains("`zstd -dc <"), "{error}");
    let error = refused(&[0x5d, 0, 0, 0x80, 0]);
    assert!(error.contains("`lzma -dc <"), "{error}");
    // b .+0x174
    parse(&0x1400_005d_u32.to_le_bytes()).unwrap();
    let mut zboot = b"MZ\0\0zimg\x40\0\0\0\x05\0\0\0".to_vec();
    zboot.resize(64, 0);
    zboot.extend([0x1f, 0x8b, 8, 0, 0, 9, 9]);
    let error = refused(&zboot);
    let commands = "`tail -c +65 'dir/Image' | head -c 5 | gzip -dc >Image`";
    assert!(error.contains(commands), "{error}");
}

#[test]
fn files_that_are_no_kernel_for_arm64_are_refused_by_what_they_are() {
    let refused = |file: &[u8]| parse(file).unwrap_err().to_string();
    let mut bzimage = vec![0; 0x300];
    bzimage[0x202..0x206].copy_from_slice(b"HdrS");
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(64, 0);
    elf[18] = 62;
    let mut multiboot = vec![0; 64];
    let words = [0x1bad_b002_u32, 0, 0x1bad_b002_u32.wrapping_neg()];
    for (word, place) in words.iter().zip(multiboot.chunks_mut(4)) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let mut riscv = flat(64);
    riscv[56..60].copy_from_slice(b"RSC\x05");
    for file in [&bzimage, &elf, &multiboot, &riscv] {
        let error = refused(file);
        assert!(error.contains(": built for another CPU"), "{error}");
    }
    elf[18] = 183;
    let error = refused(&elf);
    assert!(error.contains("objcopy"), "{error}");
    assert_eq!(refused(b""), "dir/Image: the file is empty");
    let error = refused(b"MZ\x90\0");
    assert!(error.contains(": a program for EFI"), "{error}");
    for file in [&b"#!/bin/sh"[..], &[0; 64], &flat(4)[..3]] {
        let error = refused(file);
        assert!(error.contains(": not an image for arm64"), "{error}");
    }
}

#[test]
fn what_the_kernel_cannot_take_is_refused() {
    let load = |boot: &Boot| {
        let loaded = parse(&image(0, 4096)).unwrap();
        loaded.load(&memory(RAM), boot).unwrap_err().to_string()
    };
    let error = load(&Boot {
        arguments: "x".repeat(2048),
        ..Boot::default()
    });
    assert!(
        error.contains("has 2048 bytes, but may have 2047"),
        "{error}"
    );
    let error = load(&Boot {
        environment: Some(Vec::new().into()),
        ..Boot::default()
    });
    assert!(error.contains("environment file (--env)"), "{error}");
}

proptest! {
    #[test]
    fn any_header_is_survived_and_no_kernel_is_loaded_outside_of_ram(
        text_offset in prop_oneof![any::<u64>(), 0..32_u64 << 20],
        size in prop_oneof![any::<u64>(), 0..32_u64 << 20],
        initrd in 0_usize..9000,
    ) {
        if let Ok(image) = parse(&image(text_offset, size)) {
            let ram = memory(RAM);
            if let Ok(loaded) = image.load(&ram, &boot(&vec![1; initrd])) {
                // A kernel without a size does not go where its header says.
                let (offset, size) = if size == 0 { (0x8_0000, 68) } else { (text_offset, size) };
                prop_assert_eq!(loaded.entry, BASE + offset);
                prop_assert!(loaded.tree >= loaded.entry + size && loaded.tree.is_multiple_of(TREE_LEN));
                let (first, len) = loaded.initrd.unwrap();
                prop_assert!(first >= loaded.tree + TREE_LEN && first + len <= END);
            }
        }
    }

    #[test]
    fn any_bytes_are_survived(
        at in 0_usize..70,
        noise in prop::collection::vec(any::<u8>(), 1..16),
        begin in prop::sample::select(vec![&b"MZ\0\0zimg"[..], b"\x1f\x8b", b"\x7fELF", b"\0\0\0\x14", b""]),
        len in 0_usize..80,
    ) {
        let mut file = image(0, 4096);
        file[..begin.len()].copy_from_slice(begin);
        let end = (at + noise.len()).min(file.len());
        if at < end {
            file[at..end].copy_from_slice(&noise[..end - at]);
        }
        file.truncate(len);
        if let Ok(image) = parse(&file) {
            let _ = image.load(&memory(RAM), &Boot::default());
        }
    }
}

#[test]
fn kernel_goes_from_its_file_into_ram_and_one_that_shrank_meanwhile_is_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), image(0, 1 << 20)).unwrap();
    let kernel = Arm64Image::open(file.path()).unwrap();
    let memory = memory(RAM);
    kernel.load(&memory, &boot(b"files")).unwrap();
    assert_eq!(&bytes(&memory, BASE + 0x40), b"more");
    file.as_file().set_len(64).unwrap();
    let error = kernel.load(&memory, &boot(b"files")).unwrap_err();
    assert!(
        matches!(
            error.kind,
            ImageErrorKind::Changed {
                before: 68,
                now: 64,
                ..
            }
        ),
        "{error}"
    );
}
