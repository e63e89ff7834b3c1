use std::io::Write;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::*;
use crate::virtio::request::SliceList;
use vmbell_virtqueue::Buffer;

const PIECES: usize = 3 * BATCH + 1;

fn memory() -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x1000)]).unwrap()
}

/// More pieces than one system call takes, in descending order in memory.
fn pieces(memory: &GuestMemoryMmap) -> SliceList<'_> {
    let buffers: Vec<_> = (0..PIECES as u64)
        .map(|index| Buffer::new(0x800 - 7 * index, 5))
        .collect();
    let mut slices = SliceList::new(memory);
    slices.look_up(&buffers, &[]).unwrap();
    slices
}

fn all<'r, const WRITABLE: bool>(slices: &'r SliceList<'r>) -> Slices<'r, WRITABLE> {
    Slices::new(slices.as_slice(), 5 * PIECES)
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn contents(file: &File, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, 0).unwrap();
    bytes
}

#[test]
fn pieces_of_several_system_calls_get_the_bytes_in_order() {
    let memory = memory();
    let slices = pieces(&memory);
    let bytes: Vec<u8> = (0..=250).cycle().take(1000).collect();
    let file = file(&bytes);
    read_exact_at(&file, all(&slices), 9).unwrap();
    for (index, expected) in (0..).zip(bytes[9..].chunks(5)).take(PIECES) {
        let mut read = [0; 5];
        memory
            .read_slice(&mut read, GuestAddress(0x800 - 7 * index))
            .unwrap();
        assert_eq!(read, expected, "{index}");
    }
    let len = 5 * PIECES;
    write_all_at(&file, all(&slices), 300).unwrap();
    let after = contents(&file, 1000);
    assert_eq!(after[..300], bytes[..300]);
    assert_eq!(after[300..300 + len], bytes[9..9 + len]);
    assert_eq!(after[300 + len..], bytes[300 + len..]);
}

#[test]
fn read_over_the_end_of_the_file_is_an_error() {
    let memory = memory();
    let slices = pieces(&memory);
    let file = file(&[7; 100]);
    let error = read_exact_at(&file, all(&slices), 0).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    let error = read_exact_at(&file, all(&slices), u64::MAX).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn write_that_the_file_does_not_take_is_an_error() {
    let memory = memory();
    let slices = pieces(&memory);
    let read_only = File::open("/proc/self/exe").unwrap();
    assert!(write_all_at(&read_only, all(&slices), 0).is_err());
    let full = File::options().write(true).open("/dev/full").unwrap();
    assert!(write_all_at(&full, all(&slices), 0).is_err());
}
