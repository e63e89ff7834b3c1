#![cfg(not(any(loom, miri)))]

use proptest::prelude::*;

use super::*;

const RAM: usize = 16 << 20;

fn memory(size: usize) -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), size)]).unwrap()
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
        initrd: Some(initrd.to_vec()),
        ..Boot::default()
    }
}

fn bytes<const LEN: usize>(memory: &GuestMemoryMmap, at: u64) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    memory.read_slice(&mut bytes, GuestAddress(at)).unwrap();
    bytes
}

#[test]
fn kernel_goes_to_its_offset_from_2_mib_and_the_initrd_to_the_end_of_ram() {
    let memory = memory(RAM);
    let loaded = parse(&image(0x8_0000, 1 << 20)).unwrap();
    let loaded = loaded.load(&memory, &boot(b"files")).unwrap();
    let last_page = RAM as u64 - 4096;
    assert_eq!(
        loaded,
        Loaded {
            entry: 0x28_0000,
            initrd: Some((last_page, 5))
        }
    );
    assert_eq!(&bytes(&memory, 0x28_0000), b"code");
    assert_eq!(&bytes(&memory, 0x28_0040), b"more");
    assert_eq!(&bytes(&memory, last_page), b"files");
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
        error.contains("needs 17408 KiB") && error.contains("has 16384 KiB"),
        "{error}"
    );
    let error = load(8 << 20, &vec![1; 7 << 20]);
    assert!(error.contains("initrd of 7340032 bytes"), "{error}");
    assert!(error.contains("6291456 bytes are free"), "{error}");
    let error = load(1 << 20, &vec![1; 17 << 20]);
    assert!(error.contains("--memory"), "{error}");
    // What is behind the size that the header tells is loaded, too.
    let mut file = image(0, 8);
    file.resize(15 << 20, 1);
    let error = parse(&file).unwrap().load(&memory(RAM), &Boot::default());
    assert!(
        matches!(error, Err(ImageError::TooLarge { .. })),
        "{error:?}"
    );
}

#[test]
fn compressed_kernels_are_refused_with_the_command_that_unpacks_them() {
    let refused = |file: &[u8]| parse(file).unwrap_err().to_string();
    let error = refused(&[0x1f, 0x8b, 8, 0]);
    assert!(error.contains("`gzip -dc <'dir/Image' >Image`"), "{error}");
    let error = refused(&[0x28, 0xb5, 0x2f, 0xfd, 0]);
    assert!(error.contains("`zstd -dc <"), "{error}");
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
    for file in [&bzimage, &elf] {
        let error = refused(file);
        assert!(error.contains("is for another CPU"), "{error}");
    }
    elf[18] = 183;
    let error = refused(&elf);
    assert!(error.contains("objcopy"), "{error}");
    for file in [&b""[..], b"MZ", b"some text"] {
        let error = refused(file);
        assert!(error.contains("is no Image of Linux for arm64"), "{error}");
    }
    let error = refused(&image(0, 0));
    assert!(error.contains("Linux 3.17"), "{error}");
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
    assert!(error.contains("room for 2047"), "{error}");
    let error = load(&Boot {
        environment: Some(Vec::new()),
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
                prop_assert_eq!(loaded.entry, (2 << 20) + text_offset);
                let (first, len) = loaded.initrd.unwrap();
                prop_assert!(first >= loaded.entry + size && first + len <= RAM as u64);
            }
        }
    }

    #[test]
    fn any_bytes_are_survived(
        at in 0_usize..70,
        noise in prop::collection::vec(any::<u8>(), 1..16),
        begin in prop::sample::select(vec![&b"MZ\0\0zimg"[..], b"\x1f\x8b", b"\x7fELF", b""]),
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
    assert_eq!(&bytes(&memory, 0x20_0040), b"more");
    file.as_file().set_len(64).unwrap();
    let error = kernel.load(&memory, &boot(b"files")).unwrap_err();
    assert!(
        matches!(
            error,
            ImageError::Memory {
                what: "its contents",
                ..
            }
        ),
        "{error}"
    );
}
