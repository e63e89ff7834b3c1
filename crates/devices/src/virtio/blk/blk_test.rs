use std::fs;

use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::*;
use crate::virtio::answer_double::answer;
use vmbell_virtqueue::Buffer;

const RAM: usize = 0x8_0000;
const HEAD: u64 = 0x1_0000;
const DATA: u64 = 0x2_0000;
const STATUS: u64 = 0x1_8000;
const SECTORS: u64 = 8;
/// The part of a sector at the end does not belong to any sector.
const LEN: usize = 8 * 512 + 100;
const UNANSWERED: u8 = 0xee;

struct Rig {
    memory: GuestMemoryMmap,
    disk: Disk,
    file: tempfile::NamedTempFile,
}

impl Rig {
    fn new(read_only: bool) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..=250).cycle().take(LEN).collect();
        fs::write(file.path(), bytes).unwrap();
        let disk = Disk::new(file.reopen().unwrap(), read_only).unwrap();
        // Two regions: some buffers of the tests span both.
        let half = RAM / 2;
        let regions = [0, half].map(|at| (GuestAddress(at as u64), half));
        let memory = GuestMemoryMmap::from_ranges(&regions).unwrap();
        Self { memory, disk, file }
    }

    fn contents(&self) -> Vec<u8> {
        fs::read(self.file.path()).unwrap()
    }

    fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory
            .read_slice(&mut bytes, GuestAddress(at))
            .unwrap();
        bytes
    }

    fn chain(&self, readable: &[Buffer], writable: &[Buffer]) -> Result<u32, HandlerError> {
        answer(&self.disk, 0, &self.memory, readable, writable)
    }

    fn header(&self, kind: u32, sector: u64) -> Buffer {
        self.memory.write_obj(kind, GuestAddress(HEAD)).unwrap();
        self.memory
            .write_obj(sector, GuestAddress(HEAD + 8))
            .unwrap();
        self.memory
            .write_obj(UNANSWERED, GuestAddress(STATUS))
            .unwrap();
        Buffer::new(HEAD, 16)
    }

    /// Returns the status and the length of a request with this data.
    fn request(&self, kind: u32, sector: u64, out: &[Buffer], into: &[Buffer]) -> (u8, u32) {
        let readable = [&[self.header(kind, sector)], out].concat();
        let writable = [into, &[Buffer::new(STATUS, 1)]].concat();
        let len = self.chain(&readable, &writable).unwrap();
        (self.bytes(STATUS, 1)[0], len)
    }
}

#[test]
fn a_read_gets_what_the_file_has() {
    let rig = Rig::new(false);
    let pieces = [Buffer::new(DATA, 500), Buffer::new(DATA + 0x1000, 524)];
    assert_eq!(rig.request(IN, 3, &[], &pieces), (0, 1025));
    let got = [rig.bytes(DATA, 500), rig.bytes(DATA + 0x1000, 524)].concat();
    assert_eq!(got, rig.contents()[3 * 512..5 * 512]);
}

#[test]
fn a_write_changes_the_file_there_and_nowhere_else() {
    let rig = Rig::new(false);
    let before = rig.contents();
    rig.memory
        .write_slice(&[0xa5; 1024], GuestAddress(DATA))
        .unwrap();
    let pieces = [Buffer::new(DATA, 1), Buffer::new(DATA + 1, 1023)];
    assert_eq!(rig.request(OUT, 6, &pieces, &[]), (0, 1));
    let after = rig.contents();
    assert_eq!(after[6 * 512..8 * 512], [0xa5; 1024]);
    assert_eq!(after[..6 * 512], before[..6 * 512]);
    assert_eq!(after[8 * 512..], before[8 * 512..]);
}

#[test]
fn a_flush_and_the_serial_number_are_answered() {
    let rig = Rig::new(false);
    assert_eq!(rig.request(SYNC, 0, &[], &[]), (0, 1));
    let mut rig = rig;
    let whole = "twenty-bytes-are-all";
    for text in ["", "disk 1", whole] {
        let serial: DiskSerial = text.parse().unwrap();
        rig.disk = rig.disk.with_serial(serial);
        rig.memory
            .write_slice(&[UNANSWERED; 21], GuestAddress(DATA))
            .unwrap();
        let id = [Buffer::new(DATA, 20)];
        assert_eq!(rig.request(GET_ID, 0, &[], &id), (0, 21));
        let mut expected = text.as_bytes().to_vec();
        expected.resize(20, 0);
        expected.push(UNANSWERED);
        assert_eq!(rig.bytes(DATA, 21), expected);
    }
    let error = format!("{whole}.").parse::<DiskSerial>().unwrap_err();
    assert_eq!(error.len, 21);
    let short = [Buffer::new(DATA, 19)];
    assert_eq!(rig.request(GET_ID, 0, &[], &short).0, 1);
    assert_eq!(rig.request(11, 0, &[], &[]).0, 2, "discard");
}

#[test]
fn what_is_not_on_the_disk_is_an_error_and_changes_nothing() {
    let rig = Rig::new(false);
    let before = rig.contents();
    let cases = [
        (8, 512),
        (7, 1024),
        (0, 511),
        (u64::MAX, 512),
        (u64::MAX / 512, 512),
        (u64::MAX / 512 + 1, 512),
        (0, 9 * 512),
    ];
    for (sector, len) in cases {
        let data = [Buffer::new(DATA, len)];
        assert_eq!(
            rig.request(IN, sector, &[], &data),
            (1, 0),
            "{sector} {len}"
        );
        assert_eq!(rig.request(OUT, sector, &data, &[]).0, 1, "{sector} {len}");
    }
    assert_eq!(rig.bytes(DATA, 9 * 512), vec![0; 9 * 512]);
    assert_eq!(rig.contents(), before);
}

#[test]
fn a_disk_that_is_read_only_says_so_and_takes_no_write() {
    let rig = Rig::new(true);
    assert_eq!(rig.disk.features() & READ_ONLY, READ_ONLY);
    assert_eq!(Rig::new(false).disk.features() & READ_ONLY, 0);
    let before = rig.contents();
    let data = [Buffer::new(DATA, 512)];
    assert_eq!(rig.request(OUT, 0, &data, &[]).0, 1);
    assert_eq!(rig.contents(), before);
    assert_eq!(rig.request(IN, 0, &[], &data).0, 0);
}

#[test]
fn a_file_that_shrinks_makes_errors_of_what_it_lost() {
    let rig = Rig::new(false);
    rig.file.as_file().set_len(512).unwrap();
    let data = [Buffer::new(DATA, 512)];
    assert_eq!(rig.request(IN, 1, &[], &data), (1, 0));
    assert_eq!(rig.request(IN, 0, &[], &data), (0, 513));
    assert_eq!(rig.request(OUT, 0, &data, &[]), (0, 1));
    // A write past the file's new end would extend the file, with zeros before the data.
    for (sector, len) in [(7, 512), (1, 512), (0, 1024)] {
        let data = [Buffer::new(DATA, len)];
        assert_eq!(rig.request(OUT, sector, &data, &[]).0, 1, "{sector}");
    }
    assert_eq!(rig.contents().len(), 512);
    rig.file.as_file().set_len(LEN as u64).unwrap();
    assert_eq!(rig.request(OUT, 7, &data, &[]), (0, 1));
}

#[test]
fn the_configuration_has_the_capacity_in_sectors() {
    let rig = Rig::new(false);
    let config = rig.disk.config();
    assert_eq!(config[..8], SECTORS.to_le_bytes());
    assert_eq!(config[8..], [0, 0, 1, 0, 254, 0, 0, 0]);
}

#[test]
fn a_chain_without_a_header_or_a_status_cannot_be_answered() {
    let rig = Rig::new(false);
    let header = rig.header(IN, 0);
    let short = Buffer::new(HEAD, 15);
    let status = Buffer::new(STATUS, 1);
    for (readable, writable) in [
        (&[][..], &[status][..]),
        (&[short], &[status]),
        (&[header], &[]),
        (&[header], &[Buffer::new(STATUS, 0)]),
    ] {
        let error = rig.chain(readable, writable).unwrap_err();
        assert!(matches!(error, HandlerError::Short { .. }), "{error}");
    }
}

#[test]
fn data_outside_of_ram_stop_the_queue() {
    let rig = Rig::new(false);
    let header = rig.header(IN, 0);
    let outside = Buffer::new(RAM as u64 - 1, 512);
    let error = rig.chain(&[header], &[outside, Buffer::new(STATUS, 1)]);
    assert!(
        matches!(error, Err(HandlerError::Outside { .. })),
        "{error:?}"
    );
}

#[test]
fn buffers_may_overlap_be_empty_and_span_two_regions() {
    let rig = Rig::new(false);
    let border = RAM as u64 / 2;
    let pieces = [
        Buffer::new(DATA, 0),
        Buffer::new(u64::MAX, 0),
        Buffer::new(border - 100, 512),
        Buffer::new(border - 100, 512),
    ];
    assert_eq!(rig.request(IN, 2, &[], &pieces), (0, 1025));
    assert_eq!(
        rig.bytes(border - 100, 512),
        rig.contents()[3 * 512..4 * 512]
    );
    assert_eq!(rig.request(OUT, 5, &pieces, &[]), (0, 1));
    let after = rig.contents();
    assert_eq!(after[5 * 512..6 * 512], after[3 * 512..4 * 512]);
    assert_eq!(after[6 * 512..7 * 512], after[3 * 512..4 * 512]);
}

#[test]
fn request_is_not_begun_if_its_last_buffer_is_outside_of_ram() {
    let rig = Rig::new(false);
    let before = rig.contents();
    let header = rig.header(OUT, 0);
    let data = Buffer::new(DATA, 512);
    let status = Buffer::new(RAM as u64, 1);
    let error = rig.chain(&[header, data], &[status]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a buffer at 0x80000 is not in guest memory"
    );
    assert_eq!(rig.contents(), before);
}

proptest! {
    /// However the driver cuts a request, the bytes are the same.
    #[test]
    fn framing_does_not_matter(cuts in prop::collection::vec(1..400_u32, 1..4), sector in 0..6_u64) {
        let rig = Rig::new(false);
        rig.header(IN, sector);
        let cut = |mut at: u64, end: u64| {
            let mut pieces = Vec::new();
            for len in &cuts {
                let len = u64::from(*len).min(end - at);
                pieces.push(Buffer::new(at, u32::try_from(len).unwrap()));
                at += len;
            }
            pieces.push(Buffer::new(at, u32::try_from(end - at).unwrap()));
            pieces
        };
        // The status is directly after two sectors.
        let writable = cut(DATA, DATA + 1025);
        let len = rig.chain(&cut(HEAD, HEAD + 16), &writable).unwrap();
        prop_assert_eq!(len, 1025);
        let got = rig.bytes(DATA, 1025);
        let from = usize::try_from(sector).unwrap() * 512;
        prop_assert_eq!(&got[..1024], &rig.contents()[from..from + 1024]);
        prop_assert_eq!(got[1024], 0);
    }
}

#[test]
fn what_a_file_is_beyond_its_sectors_is_known() {
    let of = |contents: &[u8]| {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), contents).unwrap();
        Disk::open(file.path(), true).unwrap()
    };
    let vdi = [&[b'<'; 0x40][..], b"\x7f\x10\xda\xbe"].concat();
    for (begin, format) in [
        (&b"QFI\xfb"[..], Some("qcow2")),
        (b"KDMV", Some("VMDK")),
        (b"conectix", Some("VHD")),
        (&vdi, Some("VDI")),
        (b"\xebc\x90GRUB", None),
        (b"QFI", None),
    ] {
        let mut contents = begin.to_vec();
        contents.resize(1024, 0);
        assert_eq!(of(&contents).format(), format);
    }
    assert_eq!([512, 1300].map(|len| of(&vec![0; len]).rest()), [0, 276]);
}

/// Opening a pipe to read it would wait for a writer.
#[test]
fn a_pipe_a_folder_and_a_character_device_are_refused_unopened() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let (owner, none) = (Mode::RUSR | Mode::WUSR, 0);
    mknodat(CWD, &pipe, FileType::Fifo, owner, none).unwrap();
    for (path, kind) in [
        (pipe.as_path(), "a pipe"),
        (folder.path(), "a folder"),
        ("/dev/null".as_ref(), "a character device"),
    ] {
        for read_only in [true, false] {
            let error = Disk::open(path, read_only).unwrap_err();
            assert!(error.to_string().contains(kind), "{error}");
        }
    }
}
