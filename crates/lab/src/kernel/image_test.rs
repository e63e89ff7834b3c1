use std::io::Write;

use super::*;

fn plain() -> Vec<u8> {
    let mut bytes = b"an Image, of which only the magic number is looked at".to_vec();
    bytes.resize(MAGIC.0, 0);
    bytes.extend(MAGIC.1);
    bytes.extend([7; 200]);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Makes an EFI zboot image with this payload.
fn zboot(payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"MZ\0\0zimg".to_vec();
    bytes.extend(64_u32.to_le_bytes());
    bytes.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
    bytes.resize(64, 0);
    bytes.extend(payload);
    bytes.extend([0xcc; 100]);
    bytes
}

fn taken(bytes: Vec<u8>) -> Result<Vec<u8>, LabError> {
    arm64_image(Path::new("k"), bytes)
}

#[test]
fn an_image_comes_out_of_every_form() {
    let packed = gzip(&plain());
    for bytes in [plain(), packed.clone(), zboot(&packed)] {
        assert_eq!(taken(bytes).unwrap(), plain());
    }
}

#[test]
fn what_has_no_image_is_refused() {
    for bytes in [
        Vec::new(),
        b"MZ and text".to_vec(),
        gzip(b"text"),
        zboot(b"text"),
    ] {
        let error = taken(bytes).unwrap_err().to_string();
        assert!(
            error.starts_with("k is not a kernel: neither an arm64 Image"),
            "{error}"
        );
    }
}

#[test]
fn a_header_that_points_outside_is_refused_with_its_numbers() {
    let mut bytes = zboot(&gzip(&plain()));
    bytes.truncate(100);
    let error = taken(bytes).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "k is an EFI zboot image of 100 bytes whose header says that its kernel is at 64, "
        ),
        "{error}"
    );
}

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
