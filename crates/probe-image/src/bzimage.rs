//! Makes a bzImage from the ELF: the setup and the loader code that it contains (`elf/bzimage.S`), then its segment.

use alloc::vec::Vec;

use crate::number::{u16_at, u32_at, u64_at};

/// The bytes, near the segment's start, that the offsets of the bzImage's pieces follow.
const MARK: &[u8] = b"vmbellbz";
const HEAD: usize = 256;
const PROGRAM_HEADER: usize = 56;
const LOAD: u32 = 1;
/// The boot sector and one more sector of setup.
const SETUP: usize = 1024;

/// Returns the bzImage; `None` if the ELF is not this image.
pub fn from_elf(elf: &[u8]) -> Option<Vec<u8>> {
    let (address, segment) = segment(elf)?;
    let mark = segment
        .get(..HEAD)?
        .windows(MARK.len())
        .position(|window| window == MARK)?;
    let place = |index: usize| u32_at(segment, mark + MARK.len() + 4 * index)?.checked_sub(address);
    let setup = place(0)?;
    let within = |index: usize| usize::try_from(place(index)?.checked_sub(setup)?).ok();
    let (len, syssize, words) = (within(1)?, within(2)?, within(3)?);
    let start = usize::try_from(setup).ok()?;
    let mut image = segment.get(start..start.checked_add(len)?)?.to_vec();
    let padded = segment.len().next_multiple_of(16);
    image.extend_from_slice(segment);
    image.resize(len + padded, 0);
    set(&mut image, words, padded / 4)?;
    let paragraphs = (image.len() - SETUP) / 16;
    set(&mut image, syssize, paragraphs)?;
    Some(image)
}

fn set(image: &mut [u8], place: usize, value: usize) -> Option<()> {
    let value = u32::try_from(value).ok()?;
    image
        .get_mut(place..place.checked_add(4)?)?
        .copy_from_slice(&value.to_le_bytes());
    Some(())
}

/// The address and the bytes of the segment that is loaded.
fn segment(elf: &[u8]) -> Option<(u32, &[u8])> {
    let headers = usize::try_from(u64_at(elf, 32)?).ok()?;
    let header = (0..usize::from(u16_at(elf, 56)?))
        .filter_map(|index| elf.get(headers.checked_add(PROGRAM_HEADER * index)?..))
        .find(|header| u32_at(header, 0) == Some(LOAD))?;
    let offset = usize::try_from(u64_at(header, 8)?).ok()?;
    let len = usize::try_from(u64_at(header, 32)?).ok()?;
    let address = u32::try_from(u64_at(header, 16)?).ok()?;
    Some((address, elf.get(offset..offset.checked_add(len)?)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::from_elf;
    use crate::ELF;

    #[test]
    fn a_cut_elf_makes_no_image() {
        for len in [0, 31, 63, 64, 120, 4096, 4200, ELF.len() / 2] {
            assert_eq!(from_elf(ELF.get(..len).unwrap_or(&[])), None, "{len}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_read(header in prop::collection::vec(any::<u8>(), 64..256)) {
            let mut elf = ELF.to_vec();
            let len = header.len().min(elf.len());
            elf[..len].copy_from_slice(&header[..len]);
            let _ = from_elf(&elf);
        }
    }
}
