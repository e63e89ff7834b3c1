use std::fs;

use super::*;
use vmbell_devices::virtio::DiskSerial;

#[test]
fn disk_of_what_cannot_be_one_says_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
    let file = |name: &str, contents: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, contents).unwrap();
        path
    };
    let sector = |begin: &[u8]| {
        let mut sector = begin.to_vec();
        sector.resize(512, 0);
        sector
    };
    let no_disk = "but a disk is a file or a block device";
    let cases = [
        (folder.path().into(), format!("it is a folder, {no_disk}")),
        (
            "/dev/null".into(),
            format!("it is a character device, {no_disk}"),
        ),
        (fifo, format!("it is a pipe, {no_disk}")),
        (
            file("empty", b""),
            "its size is 0 bytes, but a disk has at least one sector of 512 bytes".to_owned(),
        ),
        (
            file("short", &[0; 511]),
            "its size is 511 bytes, but a disk has at least one sector of 512 bytes".to_owned(),
        ),
        (folder.path().join("none"), "cannot open it".to_owned()),
        (
            file("disk.qcow2", &sector(b"QFI\xfb\0\0\0\x03")),
            "is an image in the format qcow2".to_owned(),
        ),
        (
            file("disk.vmdk", &sector(b"# Disk DescriptorFile\n")),
            "is an image in the format VMDK".to_owned(),
        ),
        (
            file("disk.vhdx", &sector(b"vhdxfile")),
            "is an image in the format VHDX".to_owned(),
        ),
    ];
    for (file, text) in cases {
        for readonly in [false, true] {
            let drive = |is_raw| DiskFile {
                file: file.clone(),
                readonly,
                is_raw,
                // A process that another test starts has the file of the last round, and its lock, until it executes its
                // program.
                locks: false,
                serial: DiskSerial::default(),
            };
            let error = format!("{:#}", disk(&drive(false)).unwrap_err());
            assert!(error.contains(&text), "{error}");
            assert!(error.contains(file.to_str().unwrap()), "{error}");
            let is_image = text.contains("format");
            assert_eq!(disk(&drive(true)).is_ok(), is_image, "{text}");
        }
    }
}

#[test]
fn disk_that_another_guest_has_is_refused_unless_the_user_insists() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(512).unwrap();
    let drive = |readonly, locks| DiskFile {
        file: file.path().into(),
        readonly,
        is_raw: false,
        locks,
        serial: DiskSerial::default(),
    };
    let _writer = disk(&drive(false, true)).unwrap();
    for readonly in [true, false] {
        let error = format!("{:#}", disk(&drive(readonly, true)).unwrap_err());
        let file = file.path().display();
        let expected = format!(
            "cannot use {file} as a disk without lock=off: another program, such as the VMM of another guest, writes to it"
        );
        assert_eq!(error, expected);
        disk(&drive(readonly, false)).unwrap();
    }
}
