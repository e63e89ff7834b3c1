//! The block device (virtio 1.3, 5.2) on a file, which is read and written directly from guest memory. Runs on the
//! thread that serves the queue; flushes run on a thread of the disk.
//!
//! Written data is in the host's page cache when the driver gets its answer, so it survives the end of this process.
//! A flush writes the data to the disk; for a driver without flushes, each write does so.

mod flush;
mod image;
mod lock;

use std::fs::{File, OpenOptions, metadata};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use self::flush::Flusher;
pub use self::image::DiskError;
use self::image::SECTOR;
use super::driver::HandlerError;
use super::host_io::{read_exact_at, write_all_at};
use super::queue::Handler;
use super::request::{Handled, Readable, Request, Writable};

const SIZE_MAX: u64 = 1 << 1;
const SEG_MAX: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 5;
const FLUSH: u64 = 1 << 9;

/// Types of request.
const IN: u32 = 0;
const OUT: u32 = 1;
const SYNC: u32 = 4;
const GET_ID: u32 = 8;

const HEADER: usize = 16;
/// The maximum size of a descriptor in bytes, and the maximum number of descriptors of a request. Together they limit a
/// request to 16 MiB, so that no driver keeps a thread busy with one chain.
const PIECE: u32 = 64 << 10;
const PIECES: u32 = 254;
const MOST: u64 = PIECE as u64 * PIECES as u64;

/// The last byte of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Status {
    Ok = 0,
    Error = 1,
    Unsupported = 2,
}

impl From<io::Result<()>> for Status {
    fn from(result: io::Result<()>) -> Self {
        result.map_or(Self::Error, |()| Self::Ok)
    }
}

/// How a request is answered.
enum Answer {
    /// At once, with this number of bytes read.
    Now(Status, usize),
    /// When all earlier writes are on the disk.
    Flushed,
}

/// Bytes of a serial number (virtio 1.3, 5.2.6).
const SERIAL_LEN: usize = 20;

/// The text that a driver gets when it asks for the disk's ID; Linux shows it in `/sys/block/vda/serial`. Defaults to
/// an empty text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSerial([u8; SERIAL_LEN]);

/// The text is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a serial number has at most {SERIAL_LEN} bytes, but this one has {len}")]
pub struct DiskSerialError {
    /// The text's length in bytes.
    pub len: usize,
}

impl FromStr for DiskSerial {
    type Err = DiskSerialError;

    fn from_str(text: &str) -> Result<Self, DiskSerialError> {
        let len = text.len();
        let mut bytes = [0; SERIAL_LEN];
        let used = bytes.get_mut(..len).ok_or(DiskSerialError { len })?;
        used.copy_from_slice(text.as_bytes());
        Ok(Self(bytes))
    }
}

/// A disk. Its only queue takes requests.
#[derive(Debug)]
pub struct Disk {
    file: File,
    flusher: Flusher,
    sectors: u64,
    read_only: bool,
    /// The capacity, and the limits of a request.
    config: [u8; 16],
    /// Whether the driver flushes, so that a write need not flush.
    flushes: AtomicBool,
    /// Whether the file can be truncated: a write past its new end would then extend it. A block device cannot be
    /// truncated.
    can_shrink: bool,
    /// Bytes at the end of the file that are not a whole sector.
    rest: u64,
    serial: DiskSerial,
}

impl Disk {
    /// Creates a disk of the whole sectors of the file or block device at `path`.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, or for the reasons of [`new`](Self::new).
    pub fn open(path: &Path, read_only: bool) -> Result<Self, DiskError> {
        // Checked before the file is opened: opening a pipe waits for its other end.
        image::check(&metadata(path).map_err(DiskError::system("open it"))?)?;
        let opened = OpenOptions::new().read(true).write(!read_only).open(path);
        Self::new(opened.map_err(DiskError::system("open it"))?, read_only)
    }

    /// Creates a disk of the whole sectors of a file or block device. Unless the disk is read-only, the file must be
    /// open for writing.
    ///
    /// # Errors
    ///
    /// If `file` is not a file or block device with at least one sector, or the process cannot have more descriptors or
    /// threads.
    pub fn new(file: File, read_only: bool) -> Result<Self, DiskError> {
        let theirs = file
            .try_clone()
            .map_err(DiskError::system("duplicate its descriptor"))?;
        Self::with_flush(file, read_only, move || theirs.sync_data())
    }

    fn with_flush(
        file: File,
        read_only: bool,
        flush: impl Fn() -> io::Result<()> + Send + 'static,
    ) -> Result<Self, DiskError> {
        let found = file.metadata();
        let found = found.map_err(DiskError::system("find out what it is"))?;
        image::check(&found)?;
        let can_shrink = !found.file_type().is_block_device();
        let len = image::len(&file)?;
        let sectors = len / SECTOR;
        let flusher = Flusher::start(move || {
            let status = Status::from(flush());
            move |to: Writable<'_>| put_status(to, status, 0)
        });
        let mut config = [0; 16];
        config[..8].copy_from_slice(&sectors.to_le_bytes());
        config[8..12].copy_from_slice(&PIECE.to_le_bytes());
        config[12..].copy_from_slice(&PIECES.to_le_bytes());
        Ok(Self {
            rest: len % SECTOR,
            file,
            flusher: flusher.map_err(DiskError::system("start a thread for it"))?,
            sectors,
            read_only,
            config,
            flushes: AtomicBool::new(false),
            can_shrink,
            serial: DiskSerial::default(),
        })
    }

    /// Gives the disk a serial number.
    pub fn with_serial(self, serial: DiskSerial) -> Self {
        Self { serial, ..self }
    }

    /// Locks the file until the disk is dropped: a read-only disk shares the file with other readers, and any other
    /// disk has the file alone. The locks are the same as QEMU's; they only work between programs that check them.
    ///
    /// # Errors
    ///
    /// If another program has locked the file, or the file system has no locks.
    pub fn lock(&self) -> Result<(), DiskError> {
        lock::lock(&self.file, self.read_only)
    }

    /// How many bytes at the end of the file are not a whole sector; the guest does not see them.
    pub const fn rest(&self) -> u64 {
        self.rest
    }

    /// The format of an image, such as qcow2, that the file's first sector begins with. The guest sees the bytes of the
    /// file, and not the disk in the image.
    pub fn format(&self) -> Option<&'static str> {
        image::format(&self.file)
    }

    /// The position in the file of a request of `len` bytes; `None` if a part of it is not on the disk.
    fn place(&self, sector: u64, len: u64) -> Option<u64> {
        let end = sector.checked_add(len / SECTOR)?;
        let sound = len.is_multiple_of(SECTOR) && len <= MOST && end <= self.sectors;
        sound.then(|| sector * SECTOR)
    }

    /// Whether the file still has the bytes at this position. A write past the file's end would extend it, and the
    /// driver would read zeros in between instead of an error.
    fn is_there(&self, at: u64, len: u64) -> bool {
        if !self.can_shrink {
            return true;
        }
        let end = (&self.file).seek(SeekFrom::End(0));
        end.is_ok_and(|end| at + len <= end)
    }

    fn read(&self, sector: u64, to: Writable<'_>) -> Status {
        let Some(at) = self.place(sector, to.len() as u64) else {
            return Status::Error;
        };
        read_exact_at(&self.file, to, at).into()
    }

    fn write(&self, sector: u64, from: Readable<'_>) -> Answer {
        let len = from.len() as u64;
        let at = self.place(sector, len).filter(|_| !self.read_only);
        let Some(at) = at.filter(|at| self.is_there(*at, len)) else {
            return Answer::Now(Status::Error, 0);
        };
        match write_all_at(&self.file, from, at).into() {
            Status::Ok if !self.flushes.load(Ordering::Relaxed) => Answer::Flushed,
            status => Answer::Now(status, 0),
        }
    }

    /// Does what the request's header asks for.
    fn request(
        &self,
        (kind, sector): (u32, u64),
        from: Readable<'_>,
        mut to: Writable<'_>,
    ) -> Answer {
        match kind {
            IN => match self.read(sector, to) {
                Status::Ok => Answer::Now(Status::Ok, to.len()),
                status => Answer::Now(status, 0),
            },
            OUT => self.write(sector, from),
            SYNC => Answer::Flushed,
            GET_ID if to.len() >= SERIAL_LEN => {
                let DiskSerial(serial) = &self.serial;
                Answer::Now(Status::Ok, to.write(serial))
            }
            GET_ID => Answer::Now(Status::Error, 0),
            _ => Answer::Now(Status::Unsupported, 0),
        }
    }
}

impl Handler for Disk {
    const DEVICE_ID: u32 = 2;
    const NAME: &'static str = "virtio-blk";

    fn features(&self) -> u64 {
        SIZE_MAX | SEG_MAX | FLUSH | if self.read_only { READ_ONLY } else { 0 }
    }

    fn accepted(&self, features: u64) {
        let flushes = features & FLUSH != 0;
        self.flushes.store(flushes, Ordering::Relaxed);
        self.flusher.forget();
    }

    fn config(&self) -> &[u8] {
        &self.config
    }

    fn is_stateless(&self) -> bool {
        true
    }

    /// The header is at the start of the bytes that the device reads, and the status is at the end of the bytes that it
    /// writes, however these bytes are cut into pieces (virtio 1.3, 2.7.4).
    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        let (mut from, to) = (request.readable(), request.writable());
        let (readable, writable) = (from.len(), to.len());
        if readable < HEADER || writable == 0 {
            return Err(HandlerError::Short { readable, writable });
        }
        let mut header = [0; HEADER];
        from.read(&mut header);
        let [a, b, c, d, _, _, _, _, sector @ ..] = header;
        let (kind, sector) = (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(sector));
        let (data, _) = to.split_at(writable - 1);
        match self.request((kind, sector), from, data) {
            Answer::Now(status, read) => {
                let written = put_status(to, status, read);
                Ok(request.complete(written))
            }
            Answer::Flushed => {
                let (pending, handled) = request.defer();
                self.flusher.complete_later(pending);
                Ok(handled)
            }
        }
    }
}

/// Writes the status after the data, of which `read` bytes were read. Returns how many bytes are written from the start
/// on.
#[inline]
fn put_status(to: Writable<'_>, status: Status, read: usize) -> usize {
    let (data, mut last) = to.split_at(to.len().saturating_sub(1));
    let end = last.write(&[status as u8]);
    if read == data.len() { read + end } else { read }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
#[path = "blk_test.rs"]
mod tests;
