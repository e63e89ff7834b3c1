//! Images for a Multiboot 1 loader (Multiboot 0.6.96): ELFs, and flat files whose header has their addresses.

mod header;
mod information;

pub(super) use self::header::{Header, SEARCH};
pub(super) use self::information::information;

use object::ReadRef;

use super::{ImageError, Parsed, Protocol, elf, len};

/// The value that the loader leaves in EAX (Multiboot 0.6.96, 3.2).
pub(super) const LOADER_MAGIC: u32 = 0x2bad_b002;

/// Checks an image with this header.
pub(super) fn parse<'d>(
    header: Header,
    image: &str,
    head: &[u8],
    contents: impl ReadRef<'d>,
) -> Result<Parsed, ImageError> {
    let (segments, entry) = match header.check(image)? {
        Some(addresses) => addresses.segments(image, len(contents))?,
        None if elf::is_elf(head) => elf::segments(image, contents)?,
        None => {
            return Err(ImageError::NotElf {
                image: image.to_owned(),
            });
        }
    };
    Ok(Parsed {
        segments,
        entry,
        protocol: Protocol::Multiboot {
            align_modules: header.aligns_modules(),
        },
    })
}
