use std::fs::File;

use super::super::Disk;
use super::*;

/// A file from which disks are made.
struct Rig(tempfile::NamedTempFile);

impl Rig {
    fn new() -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(512).unwrap();
        Self(file)
    }

    fn open(&self) -> File {
        File::options()
            .read(true)
            .write(true)
            .open(self.0.path())
            .unwrap()
    }

    fn disk(&self, read_only: bool) -> Result<Disk, String> {
        let disk = Disk::open(self.0.path(), read_only).unwrap();
        let locked = disk.lock();
        locked.map(|()| disk).map_err(|error| error.to_string())
    }

    /// Locks bytes of the file as another program does.
    fn other(&self, kind: libc::c_int, bytes: &[libc::off_t]) -> File {
        let file = self.open();
        for byte in bytes {
            call(&file, libc::F_OFD_SETLK, kind, *byte).unwrap();
        }
        file
    }
}

#[test]
fn a_file_is_the_disk_of_one_guest_that_writes_or_of_any_number_that_read() {
    for (first, second, refusal) in [
        (true, true, None),
        (true, false, Some("lets no other write to it")),
        (false, true, Some("writes to it")),
        (false, false, Some("writes to it")),
    ] {
        let rig = Rig::new();
        let disk = rig.disk(first).unwrap();
        let other = rig.disk(second);
        let error = other.err();
        assert_eq!(error.is_some(), refusal.is_some(), "{first} {second}");
        for (error, refusal) in error.iter().zip(refusal) {
            assert!(error.ends_with(refusal), "{error}");
        }
        drop(disk);
        assert!(rig.disk(second).is_ok(), "until the disk is gone");
    }
}

#[test]
fn a_disk_that_was_refused_stands_in_no_other_way() {
    let rig = Rig::new();
    let reader = rig.disk(true).unwrap();
    assert!(rig.disk(false).is_err());
    assert!(rig.disk(true).is_ok());
    drop(reader);
    assert!(rig.disk(false).is_ok());
}

/// The bytes that QEMU 7.2 locks for a raw image, as /proc/locks shows them: for a read-only disk, a writable disk, and
/// a shared disk (`share-rw=on`).
#[test]
fn disks_of_qemu_are_seen_and_see_those_of_vmbell() {
    let reads = [100, 201];
    let writes = [100, 101, 201];
    let shares_all = [100, 101];
    for (theirs, reads_too, writes_too) in [
        (&reads[..], true, false),
        (&writes[..], false, false),
        (&shares_all[..], false, false),
        (&[100], true, true),
    ] {
        let rig = Rig::new();
        let _qemu = rig.other(libc::F_RDLCK, theirs);
        assert_eq!(rig.disk(true).is_ok(), reads_too, "{theirs:?}");
        assert_eq!(rig.disk(false).is_ok(), writes_too, "{theirs:?}");
    }
    for read_only in [true, false] {
        let rig = Rig::new();
        let _disk = rig.disk(read_only).unwrap();
        let qemu = rig.open();
        let is_free = |byte| call(&qemu, libc::F_OFD_GETLK, libc::F_WRLCK, byte).unwrap();
        let found: Vec<_> = (100..300)
            .filter(|byte| is_free(*byte) != libc::F_UNLCK)
            .collect();
        let expected = match read_only {
            true => vec![100, 201, 203],
            false => vec![100, 101, 201, 203],
        };
        assert_eq!(found, expected);
    }
}

#[test]
fn a_lock_of_the_whole_file_is_respected() {
    let rig = Rig::new();
    let bytes: Vec<_> = (0..512).collect();
    let _other = rig.other(libc::F_WRLCK, &bytes);
    for read_only in [true, false] {
        let error = rig.disk(read_only).err().unwrap();
        assert!(error.ends_with("has locked all of it"), "{error}");
    }
}
