use super::*;

#[test]
fn a_kernel_for_another_architecture_is_refused_by_name() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut image = vec![0; 4096];
    image[..2].copy_from_slice(b"MZ");
    image[56..60].copy_from_slice(b"ARM\x64");
    let elf = |machine: u16| {
        let mut elf = vec![0; 64];
        elf[..4].copy_from_slice(ELF);
        elf[18..20].copy_from_slice(&machine.to_le_bytes());
        elf
    };
    let refuse = |bytes: &[u8], arch| {
        fs::write(file.path(), bytes).unwrap();
        KernelImage::read(file.path(), arch)
            .unwrap_err()
            .to_string()
    };
    for bytes in [image, elf(183)] {
        let error = refuse(&bytes, "x86_64");
        let told = error.ends_with(" is a kernel for aarch64, and L1 is x86_64");
        assert!(told, "{error}");
    }
    let error = refuse(&elf(62), "aarch64");
    let told = error.ends_with(" is a kernel for x86_64, and L1 is aarch64");
    assert!(told, "{error}");
}
