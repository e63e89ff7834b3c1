use super::super::{Arm64Image, Image};

/// Returns the error for a file with these bytes at an offset.
fn said(at: usize, magic: &[u8]) -> String {
    let file = [&vec![0; at], magic, &[0; 64]].concat();
    let error = Image::parse("vmlinuz".to_owned(), &file).unwrap_err();
    error.to_string()
}

#[test]
fn kernels_for_other_cpus_are_named_with_what_is_wanted() {
    for (at, magic, cpu) in [
        (0x38, &b"ARM\x64"[..], "arm64"),
        (0x38, b"RSC\x05", "RISC-V"),
        (0x24, &[0x18, 0x28, 0x6f, 0x01], "32-bit Arm"),
        (0, b"MZ\0\0zimg", "LoongArch"),
    ] {
        let said = said(at, magic);
        assert!(said.starts_with("vmlinuz: built for "), "{said}");
        assert!(
            said.contains(cpu) && said.contains("give an image for i386 or x86-64"),
            "{said}"
        );
    }
}

#[test]
fn compressed_files_are_named_with_the_command_that_unpacks_them() {
    for (magic, command) in [
        (&[0x1f, 0x8b, 8][..], "`gzip -dc <'vmlinuz' >image`"),
        (b"\xfd7zXZ\0", "`xz -dc <'vmlinuz' >image`"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "`zstd -dc <'vmlinuz' >image`"),
        (b"BZh9", "`bzip2 -dc <'vmlinuz' >image`"),
    ] {
        let said = said(0, magic);
        assert!(said.contains(command), "{said}");
    }
}

/// The headers of a program for EFI with these sections.
fn efi_program(sections: &[&str]) -> Vec<u8> {
    let mut file = b"MZ".to_vec();
    file.resize(0x3c, 0);
    file.extend(0x80_u32.to_le_bytes());
    file.resize(0x80, 0);
    file.extend(b"PE\0\0");
    for half in [
        0x8664,
        u16::try_from(sections.len()).unwrap(),
        0,
        0,
        0,
        0,
        0,
        0,
        240,
        0,
    ] {
        file.extend(half.to_le_bytes());
    }
    file.resize(file.len() + 240, 0);
    for name in sections {
        let end = file.len() + 40;
        file.extend(name.as_bytes());
        file.resize(end, 0);
    }
    file
}

#[test]
fn unified_kernel_images_are_named_with_the_commands_that_take_them_apart() {
    let said = |sections: &[&str]| {
        let error = Image::parse("a.efi".to_owned(), &efi_program(sections)).unwrap_err();
        error.to_string()
    };
    let expected = "a.efi: a unified kernel image, but this machine has no EFI: take it apart, \
                    `objcopy -O binary -j .linux 'a.efi' vmlinuz && objcopy -O binary -j .initrd 'a.efi' initrd.img && \
                    objcopy -O binary -j .cmdline 'a.efi' cmdline`, and \
                    `vmbell run vmlinuz --initrd initrd.img --append \"$(tr -d '\\0' <cmdline)\"`";
    assert_eq!(
        said(&[".text", ".cmdline", ".sbat", ".initrd", ".linux"]),
        expected
    );
    let expected = "`objcopy -O binary -j .linux 'a.efi' vmlinuz`, and `vmbell run vmlinuz`";
    assert!(said(&[".linux"]).ends_with(expected));
    let whole = efi_program(&[".linux", ".initrd"]);
    let arm64 = Arm64Image::parse("a.efi".to_owned(), &whole).unwrap_err();
    assert!(arm64.to_string().contains("initrd.img`, and `vmbell run"));
    for sections in [&[".text", ".linuxes"][..], &[]] {
        assert!(said(sections).contains("a.efi: neither an ELF nor a bzImage"));
    }
    for len in 0..whole.len() {
        let _ = Image::parse("a.efi".to_owned(), &whole[..len]).unwrap_err();
    }
}

#[test]
fn anything_else_is_no_image() {
    for (at, magic) in [
        (0x39, &b"ARM\x64"[..]),
        (1, &[0x1f, 0x8b]),
        (0, b"#!/bin/sh"),
    ] {
        assert!(said(at, magic).contains("vmlinuz: neither an ELF nor a bzImage"));
    }
    let empty = Image::parse("empty".to_owned(), &[]).unwrap_err();
    assert!(
        empty
            .to_string()
            .contains("empty: neither an ELF nor a bzImage")
    );
}
