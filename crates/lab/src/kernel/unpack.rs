//! Decompression by magic number.

use std::io::{self, Read};

/// Decompresses gzip, xz, lz4 (legacy frames, as the kernel's build makes them) or zstd data;
/// returns `None` for data in another format. Bytes after the end are ignored: the kernel's build
/// appends the size.
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
#[path = "unpack_test.rs"]
mod tests;
