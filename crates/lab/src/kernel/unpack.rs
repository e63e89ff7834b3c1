//! Decompresses data whose format is recognized by its magic number.

use std::io::{self, Read};

/// Decompresses gzip, xz, lz4 (legacy frames, as from the kernel's build) or zstd; returns `None` for other formats.
/// Bytes after the end of the data are ignored: the kernel's build appends the size.
pub fn unpack(data: &[u8]) -> Option<io::Result<Vec<u8>>> {
    Some(match data {
        [0x1f, 0x8b, ..] => read(flate2::read::GzDecoder::new(data)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => read(lzma_rust2::XzReader::new(data, false)),
        [0x02, 0x21, 0x4c, 0x18, ..] => {
            // Legacy frames have no end mark, so the appended size would be read as a block.
            read(lz4_flex::frame::FrameDecoder::new(
                data.get(..data.len() - 4)?,
            ))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ruzstd::decoding::StreamingDecoder::new(data)
            .map_err(io::Error::other)
            .and_then(read),
        _ => return None,
    })
}

fn read(mut decoder: impl Read) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    decoder.read_to_end(&mut plain)?;
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &[u8] = b"all of these say the same, all of these say the same\n";

    /// Returns the output of `printf 'all of ...' | lz4 -l -c`, as in the kernel's build, and the appended size.
    fn lz4_legacy() -> Vec<u8> {
        let mut data = vec![0x02, 0x21, 0x4c, 0x18];
        // One block of literals: a token with length 15, the rest of the length, the bytes.
        let block_size = u32::try_from(PLAIN.len() + 2).unwrap();
        data.extend(block_size.to_le_bytes());
        data.extend([0xf0, u8::try_from(PLAIN.len() - 15).unwrap()]);
        data.extend(PLAIN);
        data.extend(u32::try_from(PLAIN.len()).unwrap().to_le_bytes());
        data
    }

    fn gzip() -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        io::Write::write_all(&mut encoder, PLAIN).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd() -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(PLAIN, ruzstd::encoding::CompressionLevel::Uncompressed)
    }

    #[test]
    fn each_format_of_the_kernels_build_is_unpacked() {
        for (name, mut data) in [("lz4", lz4_legacy()), ("gzip", gzip()), ("zstd", zstd())] {
            if name != "lz4" {
                data.extend(53_u32.to_le_bytes());
            }
            let plain = unpack(&data).unwrap_or_else(|| panic!("{name} is not known"));
            assert_eq!(
                plain.unwrap_or_else(|error| panic!("{name}: {error}")),
                PLAIN,
                "{name}"
            );
        }
    }

    #[test]
    fn truncated_data_is_an_error_and_no_short_kernel() {
        let data = gzip();
        assert!(unpack(&data[..data.len() / 2]).unwrap().is_err());
        let data = zstd();
        assert!(unpack(&data[..data.len() / 2]).unwrap().is_err());
        assert!(unpack(b"\xfd7zXZ\0\0\0").unwrap().is_err());
    }

    #[test]
    fn other_data_is_left_alone() {
        for data in [b"".as_slice(), b"\x7fELF", b"BZh9", b"\x02\x21"] {
            assert!(unpack(data).is_none());
        }
    }
}
