use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;

use vm_memory::Bytes;

use super::*;

const AT: GuestAddress = GuestAddress(0xff0);

fn memory() -> GuestMemoryMmap {
    // The file crosses the border between two regions.
    let regions = [0, 0x1000].map(|at| (GuestAddress(at), 0x1000));
    GuestMemoryMmap::from_ranges(&regions).unwrap()
}

fn regular(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn file_goes_into_memory_again_and_again() {
    let bytes: Vec<u8> = (0..100).collect();
    let file = regular(&bytes);
    let opened = BootFile::open(file.path(), 101).unwrap();
    for boot_file in [opened.clone(), opened, bytes.clone().into()] {
        let memory = memory();
        boot_file.copy("the initrd", &memory, AT.0).unwrap();
        let mut read = vec![0; 101];
        memory.read_slice(&mut read, AT).unwrap();
        assert_eq!(read[..100], bytes);
        assert_eq!(read[100], 0);
    }
}

#[test]
fn file_that_shrinks_or_grows_before_it_is_in_memory_is_named_with_both_lengths() {
    for (now, name) in [(99, "shrinks"), (0, "is emptied"), (101, "grows")] {
        let file = regular(&[7; 100]);
        let boot_file = BootFile::open(file.path(), 1000).unwrap();
        file.as_file().set_len(now).unwrap();
        let expected = format!(
            "the initrd had 100 bytes and now has {now}: it must not change until the guest has started"
        );
        let copied = boot_file.copy("the initrd", &memory(), AT.0);
        assert_eq!(copied.unwrap_err().to_string(), expected, "{name}");
    }
}

#[test]
fn file_that_is_too_large_is_refused_whether_or_not_its_length_is_known() {
    let file = regular(&[7; 100]);
    let zeros = std::path::Path::new("/dev/zero");
    for (path, end) in [(file.path(), 100), (zeros, 1 << 20)] {
        let error = BootFile::open(path, end).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{}", path.display());
    }
}

#[test]
fn pipe_is_read_when_it_is_opened() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"files").unwrap();
    drop(writer);

    let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
    let boot_file = BootFile::open(path.as_ref(), 6).unwrap();
    drop(reader);
    let (memory, mut read) = (memory(), [0; 5]);
    boot_file.copy("the initrd", &memory, AT.0).unwrap();
    memory.read_slice(&mut read, AT).unwrap();
    assert_eq!(read, *b"files");
}
