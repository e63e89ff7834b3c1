use std::fs;

use super::*;
use crate::kernel::KernelImage;

/// Makes a bzImage with one setup sector and this payload.
fn bzimage(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    bytes[SETUP_SECTORS] = 1;
    bytes[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
    bytes[VERSION + 1] = 2;
    bytes[KERNEL_VERSION..KERNEL_VERSION + 2].copy_from_slice(&0x180_u16.to_le_bytes());
    bytes[0x380..0x392].copy_from_slice(b"6.12.99-x (who) #1");
    bytes[PAYLOAD_OFFSET] = 16;
    bytes[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4]
        .copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
    bytes.extend([0xcc; 16]);
    bytes.extend(payload);
    bytes
}

fn read(bytes: &[u8]) -> Result<KernelImage, LabError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    KernelImage::read(file.path(), "x86_64")
}

#[test]
fn the_elf_comes_out_with_its_version() {
    let mut elf = *b"\x7fELF and the rest of a kernel";
    elf[18..20].copy_from_slice(&62_u16.to_le_bytes());
    let packed = ruzstd::encoding::compress_to_vec(
        elf.as_slice(),
        ruzstd::encoding::CompressionLevel::Uncompressed,
    );
    let image = read(&bzimage(&packed)).unwrap();
    assert_eq!(image.bytes, elf);
    assert_eq!(image.version.as_deref(), Some("6.12.99-x"));
    assert_eq!(read(&elf).unwrap().bytes, elf, "an ELF is taken as it is");
}

#[test]
fn an_unknown_compression_boots_as_it_is() {
    let whole = bzimage(b"BZh9 whatever");
    assert_eq!(read(&whole).unwrap().bytes, whole);
}

#[test]
fn a_half_downloaded_image_is_refused_with_its_numbers() {
    let whole = bzimage(&[0; 100]);
    let error = read(&whole[..1060]).unwrap_err().to_string();
    assert!(error.ends_with("is a bzImage of 1060 bytes whose header says that its kernel is at 1040, 100 bytes long"), "{error}");
    let error = read(&bzimage(&[])).unwrap_err();
    assert!(error.to_string().ends_with(", 0 bytes long"), "{error}");
}

#[test]
fn what_is_no_kernel_is_refused() {
    for bytes in [b"".as_slice(), b"MZ", &[0; 4096]] {
        let error = read(bytes).unwrap_err();
        assert!(
            error.to_string().contains("is not a kernel: neither"),
            "{error}"
        );
    }
    let error = KernelImage::read("/nonexistent/vmlinuz".as_ref(), "x86_64").unwrap_err();
    assert_eq!(error.to_string(), "cannot read /nonexistent/vmlinuz");
}
