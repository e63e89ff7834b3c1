//! The channels of a Linux in Bochs, which has no virtio: frames to the host over one I/O port, and single bytes from
//! the host over another. Each channel is joined to the other end of a [`Channel`], as QEMU does for its ports.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{ChildStdin, ChildStdout};
use std::thread;

use super::channel::Channel;
use crate::error::{LabError, cannot, failed};
use crate::job::port;

/// The I/O port to which the guest writes the bytes of frames. Bochs writes them to its standard output.
pub(crate) const FRAMES: u16 = 0xe9;
/// The I/O port from which the guest reads the next byte that the host sends over the control channel, or 0.
pub(crate) const REQUESTS: u16 = 0xe8;
/// The I/O port that ends Bochs when [`END`] is written to it, byte by byte.
pub(crate) const END_PORT: u16 = 0x8900;
pub(crate) const END: &[u8] = b"Shutdown";

/// The length of a frame's header.
const HEADER: usize = 8;
/// The first bytes of a header. Before the first frame, Bochs prints text.
const MAGIC: [u8; 3] = [0xff, b'v', b'b'];

/// Returns the header of a frame: the index of its channel in [`port::ALL`], and the number of bytes that follow.
pub(crate) fn header(channel: u8, length: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..3].copy_from_slice(&MAGIC);
    header[3] = channel;
    header[4..].copy_from_slice(&length.to_le_bytes());
    header
}

/// Takes frames out of a stream of bytes.
#[derive(Debug, Default)]
struct FrameReader {
    bytes: Vec<u8>,
    /// The channel of the frame that is being read, and how many of its bytes are missing.
    open: Option<(usize, usize)>,
}

impl FrameReader {
    /// Passes on the bytes of frames, each piece with its channel.
    fn push(&mut self, bytes: &[u8], mut take: impl FnMut(usize, &[u8])) {
        self.bytes.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            let rest = &self.bytes[at..];
            match self.open {
                Some((channel, missing)) => {
                    let length = missing.min(rest.len());
                    if length > 0 {
                        take(channel, &rest[..length]);
                    }
                    at += length;
                    self.open = (length < missing).then_some((channel, missing - length));
                    if self.open.is_some() {
                        break;
                    }
                }
                None if rest.len() < HEADER => break,
                None if rest.starts_with(&MAGIC) => {
                    let length = [rest[4], rest[5], rest[6], rest[7]];
                    let length = usize::try_from(u32::from_le_bytes(length));
                    self.open = Some((usize::from(rest[3]), length.unwrap_or(0)));
                    at += HEADER;
                }
                None => at += 1,
            }
        }
        self.bytes.drain(..at);
    }
}

/// The other ends of the channels, for the threads that [`join`] starts.
pub(super) struct ChannelEnds {
    /// All ends, in the order of [`port::ALL`].
    all: Vec<UnixStream>,
    /// A copy of the control channel's end.
    control: UnixStream,
}

/// Takes the other ends of the channels.
pub(super) fn take_ends(channels: &mut [Channel]) -> Result<ChannelEnds, LabError> {
    let (mut all, mut control) = (Vec::new(), None);
    for channel in channels {
        let name = channel.name;
        let end = channel.take_theirs();
        let Some(end) = end.map_err(cannot("keep", "a socket"))? else {
            return Err(failed!("the channel {name} is in use"));
        };
        if name == port::CONTROL {
            control = Some(end.try_clone().map_err(cannot("copy", "a socket"))?);
        }
        all.push(end);
    }
    match control {
        Some(control) => Ok(ChannelEnds { all, control }),
        None => Err(failed!("there is no channel {}", port::CONTROL)),
    }
}

/// Starts threads that join the channels to a Bochs: its frames go to their channels, and what the host sends over the
/// control channel goes to Bochs. They end when Bochs ends.
pub(super) fn join(ends: ChannelEnds, mut from: ChildStdout, mut to: ChildStdin) {
    let ChannelEnds {
        all: mut ends,
        control: mut requests,
    } = ends;
    thread::spawn(move || {
        let mut byte = [0];
        while let Ok(1) = requests.read(&mut byte) {
            // A failure means that Bochs has ended.
            if to.write_all(&byte).and_then(|()| to.flush()).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        let mut frames = FrameReader::default();
        let mut piece = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            frames.push(&piece[..length], |channel, bytes| {
                if let Some(end) = ends.get_mut(channel) {
                    // The lab's thread reads to the end even if its sink has failed, so this fails only if the lab
                    // no longer reads.
                    let _ = end.write_all(bytes);
                }
            });
        }
        for end in &ends {
            let _ = end.shutdown(Shutdown::Both);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(channel: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(bytes.len()).unwrap();
        [&header(channel, length)[..], bytes].concat()
    }

    #[test]
    fn frames_arrive_whole_however_they_are_cut() {
        let stream = [
            b"==== Bochs x86 Emulator \xffv ====\n".to_vec(),
            frame(2, b"\xffvb is not a header here"),
            frame(3, b""),
            frame(2, b"more"),
        ]
        .concat();
        for size in 1..stream.len() {
            let mut reader = FrameReader::default();
            let mut read = [(); 5].map(|()| Vec::<u8>::new());
            for piece in stream.chunks(size) {
                reader.push(piece, |channel, bytes| read[channel].extend(bytes));
            }
            assert_eq!(read[2], b"\xffvb is not a header heremore", "{size}");
            assert!(read[3].is_empty() && reader.bytes.is_empty());
        }
    }

    #[test]
    fn channels_whose_other_ends_are_not_all_there_are_refused() {
        let mut channels = super::super::machine::channels().unwrap();
        assert_eq!(take_ends(&mut channels).unwrap().all.len(), port::ALL.len());
        let error = take_ends(&mut channels).err().unwrap().to_string();
        assert!(error.ends_with("is in use"), "{error}");
        let error = take_ends(&mut []).err().unwrap().to_string();
        assert!(error.starts_with("there is no channel"), "{error}");
    }

    #[test]
    fn a_frame_that_is_cut_off_gives_what_has_arrived() {
        let mut reader = FrameReader::default();
        let mut read: Vec<u8> = Vec::new();
        let bytes = frame(2, b"whole");
        reader.push(&bytes[..bytes.len() - 2], |_, bytes| read.extend(bytes));
        assert_eq!(read, b"who");
    }
}
