use super::super::Image;

/// A file with these bytes at an offset.
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
        assert!(said.starts_with("vmlinuz is a kernel for "), "{said}");
        assert!(
            said.contains(cpu) && said.contains("give one for i386 or x86-64"),
            "{said}"
        );
    }
}

#[test]
fn compressed_files_are_named_with_the_command_that_unpacks_them() {
    for (magic, command) in [
        (&[0x1f, 0x8b, 8][..], "`gzip -dc vmlinuz >image`"),
        (b"\xfd7zXZ\0", "`xz -dc vmlinuz >image`"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "`zstd -dc vmlinuz >image`"),
        (b"BZh9", "`bzip2 -dc vmlinuz >image`"),
    ] {
        let said = said(0, magic);
        assert!(said.contains(command), "{said}");
    }
}

#[test]
fn anything_else_is_no_image() {
    for (at, magic) in [
        (0x39, &b"ARM\x64"[..]),
        (1, &[0x1f, 0x8b]),
        (0, b"#!/bin/sh"),
    ] {
        assert!(said(at, magic).contains("is neither an ELF nor a bzImage"));
    }
    let empty = Image::parse("empty".to_owned(), &[]).unwrap_err();
    assert!(
        empty
            .to_string()
            .contains("empty is neither an ELF nor a bzImage")
    );
}
