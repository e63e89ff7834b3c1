//! Makes Multiboot images and PVH kernels.

/// Where the code goes.
const CODE: u32 = 0x10_0000;
const HEADER: [u32; 3] = [0x1bad_b002, 0, 0xe452_4ffe];

/// A part of an image.
#[derive(Clone, Debug)]
pub struct Segment {
    address: u32,
    bytes: Vec<u8>,
}

impl Segment {
    /// Makes a segment from an address and bytes.
    pub fn new(address: u32, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self { address, bytes }
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn len(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap()
}

/// Makes a 32-bit ELF whose first segment is a Multiboot header and `code`; the entry point is the start of `code`.
pub fn elf(code: &[u8], more: &[Segment]) -> Vec<u8> {
    file(&words(&HEADER), code, more, &[])
}

/// Makes a PVH kernel of the same parts; its entry point is in a note.
pub fn kernel(code: &[u8], more: &[Segment]) -> Vec<u8> {
    const XEN_ELFNOTE_PHYS32_ENTRY: u32 = 18;
    let xen = u32::from_le_bytes(*b"Xen\0");
    let note = words(&[4, 4, XEN_ELFNOTE_PHYS32_ENTRY, xen, CODE]);
    file(&[], code, more, &note)
}

fn file(header: &[u8], code: &[u8], more: &[Segment], note: &[u8]) -> Vec<u8> {
    const LOAD: u32 = 1;
    const NOTE: u32 = 4;
    let mut parts = vec![(LOAD, Segment::new(CODE, [header, code].concat()))];
    parts.extend(more.iter().cloned().map(|segment| (LOAD, segment)));
    if !note.is_empty() {
        parts.push((NOTE, Segment::new(0, note)));
    }
    let mut file = b"\x7fELF\x01\x01\x01".to_vec();
    file.resize(16, 0);
    let count = u32::try_from(parts.len()).unwrap();
    file.extend(words(&[0x0003_0002, 1, CODE + len(header), 52, 0, 0]));
    file.extend(words(&[0x0020_0034, 0x0028_0000 | count, 0]));
    let mut offset = 52 + 32 * count;
    for (kind, Segment { address, bytes }) in &parts {
        let size = len(bytes);
        file.extend(words(&[
            *kind, offset, *address, *address, size, size, 7, 4,
        ]));
        offset += size;
    }
    file.extend(parts.into_iter().flat_map(|(_, segment)| segment.bytes));
    file
}
