//! The block device (virtio 1.3, 5.2) on a file. It runs on the thread that serves the queue.
//!
//! What was written is in the host's page cache when the driver gets its answer, so the end of this process loses none of
//! it. A flush brings it to the disk; for a driver that does not know flushes each write does.

use std::fmt;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::place::Place;
use super::queue::{Handler, HandlerError};
use vmbell::virtqueue::Chain;

const SIZE_MAX: u64 = 1 << 1;
const SEG_MAX: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 5;
const FLUSH: u64 = 1 << 9;

/// Types of request.
const IN: u32 = 0;
const OUT: u32 = 1;
const SYNC: u32 = 4;
const GET_ID: u32 = 8;

const SECTOR: u64 = 512;
const HEADER: usize = 16;
/// Bytes of the name that GET_ID asks for.
const ID: usize = 20;
/// The most bytes of a descriptor and the most descriptors of a request. Together they limit a request to 16 MiB, so that
/// no driver keeps a thread busy with one chain.
const PIECE: u32 = 64 << 10;
const PIECES: u32 = 254;
const MOST: u64 = PIECE as u64 * PIECES as u64;
/// How many bytes are copied at once.
const STEP: usize = 64 << 10;

/// The last byte of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Status {
    Ok = 0,
    Error = 1,
    Unsupported = 2,
}

/// A disk. Its one queue is that of requests.
pub struct Disk {
    file: File,
    sectors: u64,
    read_only: bool,
    /// The capacity, and the limits of a request.
    config: [u8; 16],
    /// Whether the driver flushes, so that a write need not.
    flushes: AtomicBool,
    copy: Mutex<Box<[u8]>>,
}

impl Disk {
    /// A disk of the whole sectors of a file or block device. One that is not read-only needs a file that is open for
    /// writing.
    ///
    /// # Errors
    ///
    /// If the size cannot be told.
    pub fn new(mut file: File, read_only: bool) -> io::Result<Self> {
        let sectors = file.seek(SeekFrom::End(0))? / SECTOR;
        let mut config = [0; 16];
        config[..8].copy_from_slice(&sectors.to_le_bytes());
        config[8..12].copy_from_slice(&PIECE.to_le_bytes());
        config[12..].copy_from_slice(&PIECES.to_le_bytes());
        Ok(Self {
            file,
            sectors,
            read_only,
            config,
            flushes: AtomicBool::new(false),
            copy: Mutex::new(vec![0; STEP].into()),
        })
    }

    /// The place in the file of a request of `len` bytes; `None` if the disk does not have all of it.
    fn place(&self, sector: u64, len: u64) -> Option<u64> {
        let end = sector.checked_add(len / SECTOR)?;
        let sound = len.is_multiple_of(SECTOR) && len <= MOST && end <= self.sectors;
        sound.then(|| sector * SECTOR)
    }

    /// Calls `copy` with each piece of a request and with the place in the file. Says whether the file took or gave all.
    fn pieces(
        &self,
        at: u64,
        len: u64,
        mut copy: impl FnMut(&mut [u8], u64) -> Result<io::Result<()>, HandlerError>,
    ) -> Result<Status, HandlerError> {
        let mut bytes = self.copy.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while done < len {
            let left = usize::try_from(len - done).unwrap_or(usize::MAX);
            let step = left.min(STEP);
            if copy(&mut bytes[..step], at + done)?.is_err() {
                return Ok(Status::Error);
            }
            done += step as u64;
        }
        Ok(Status::Ok)
    }

    /// Whether the file still has the bytes at this place. A write behind its end would make it longer, and the driver would
    /// read zeros in between instead of an error.
    fn is_there(&self, at: u64, len: u64) -> bool {
        let end = (&self.file).seek(SeekFrom::End(0));
        end.is_ok_and(|end| at + len <= end)
    }

    fn flush(&self) -> Status {
        match self.file.sync_data() {
            Ok(()) => Status::Ok,
            Err(_) => Status::Error,
        }
    }

    /// Does what the header asks for, with `to` bytes to write to the driver, and returns how many were written.
    fn request(
        &self,
        memory: &GuestMemoryMmap,
        (kind, sector): (u32, u64),
        (from, readable): (&mut Place<'_>, u64),
        (to, writable): (&mut Place<'_>, u64),
    ) -> Result<(Status, u64), HandlerError> {
        let status = match kind {
            IN => {
                let Some(at) = self.place(sector, writable) else {
                    return Ok((Status::Error, 0));
                };
                let status = self.pieces(at, writable, |bytes, at| {
                    let read = self.file.read_exact_at(bytes, at);
                    if read.is_ok() {
                        to.write(memory, bytes)?;
                    }
                    Ok(read)
                })?;
                let written = if status == Status::Ok { writable } else { 0 };
                return Ok((status, written));
            }
            OUT if self.read_only => Status::Error,
            OUT => {
                let at = self.place(sector, readable);
                let Some(at) = at.filter(|at| self.is_there(*at, readable)) else {
                    return Ok((Status::Error, 0));
                };
                let status = self.pieces(at, readable, |bytes, at| {
                    from.read(memory, bytes)?;
                    Ok(self.file.write_all_at(bytes, at))
                })?;
                if status == Status::Ok && !self.flushes.load(Ordering::Relaxed) {
                    self.flush()
                } else {
                    status
                }
            }
            SYNC => self.flush(),
            GET_ID if writable >= ID as u64 => {
                let mut id = [0; ID];
                id[..6].copy_from_slice(b"vmbell");
                to.write(memory, &id)?;
                return Ok((Status::Ok, ID as u64));
            }
            GET_ID => Status::Error,
            _ => Status::Unsupported,
        };
        Ok((status, 0))
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
    }

    fn config(&self) -> &[u8] {
        &self.config
    }

    /// The header begins the bytes that the device reads, and the status ends those that it writes, however they are cut
    /// into pieces (virtio 1.3, 2.7.4).
    fn handle(&self, _: u16, memory: &GuestMemoryMmap, chain: &Chain) -> Result<u32, HandlerError> {
        let (readable, writable) = (chain.readable_len(), chain.writable_len());
        let last = chain.writable().iter().rfind(|piece| piece.len > 0);
        let (Some(last), Some(readable_data)) =
            (last, u64::from(readable).checked_sub(HEADER as u64))
        else {
            return Err(HandlerError::Short { readable, writable });
        };
        // Neither overflows: the piece is not empty, and `Chain` checked its end.
        let at_status = GuestAddress(last.addr + u64::from(last.len - 1));
        let writable_data = u64::from(writable - 1);
        let (mut from, mut to) = (Place::new(chain.readable()), Place::new(chain.writable()));
        let mut header = [0; HEADER];
        from.read(memory, &mut header)?;
        let [a, b, c, d, _, _, _, _, sector @ ..] = header;
        let kind = u32::from_le_bytes([a, b, c, d]);
        let (status, written) = self.request(
            memory,
            (kind, u64::from_le_bytes(sector)),
            (&mut from, readable_data),
            (&mut to, writable_data),
        )?;
        memory
            .write_slice(&[status as u8], at_status)
            .map_err(|source| HandlerError::Outside {
                address: at_status,
                source,
            })?;
        // The length is that of the bytes written from the start, and the status is behind all data.
        let all = u32::from(written == writable_data);
        Ok(u32::try_from(written).map_or(u32::MAX, |written| written + all))
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk")
            .field("file", &self.file)
            .field("sectors", &self.sectors)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
#[path = "blk_test.rs"]
mod tests;
