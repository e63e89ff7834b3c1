//! A vhost-user back end that serves nothing: it answers as QEMU's `docs/interop/vhost-user.rst` says, until a request
//! at which it starts to misbehave.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

pub const GET_FEATURES: u32 = 1;
pub const SET_FEATURES: u32 = 2;
pub const SET_OWNER: u32 = 3;
pub const SET_MEM_TABLE: u32 = 5;
pub const SET_VRING_NUM: u32 = 8;
pub const SET_VRING_ADDR: u32 = 9;
pub const SET_VRING_BASE: u32 = 10;
pub const GET_VRING_BASE: u32 = 11;
pub const SET_VRING_KICK: u32 = 12;
pub const SET_VRING_CALL: u32 = 13;
pub const SET_VRING_ERR: u32 = 14;
pub const GET_PROTOCOL_FEATURES: u32 = 15;
pub const SET_PROTOCOL_FEATURES: u32 = 16;
pub const SET_VRING_ENABLE: u32 = 18;
pub const GET_CONFIG: u32 = 24;

/// A request's number, and how many requests with this number have come, from 1.
pub type Request = (u32, usize);

/// What the back end does once the request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misdeed {
    /// The back end reads on, but answers nothing.
    Mute,
    /// The back end reads nothing more.
    Deaf,
    /// The back end answers byte by byte, each byte within the time that an answer may take.
    Trickles,
    /// The back end answers after the other side has stopped waiting.
    Late,
    /// The back end answers a different request.
    Lies,
    /// The back end reports a failure in answer to each request that asks for an answer.
    Fails,
    /// The back end hangs up.
    HangsUp,
}

impl Misdeed {
    pub const ALL: [Self; 7] = [
        Self::Mute,
        Self::Deaf,
        Self::Trickles,
        Self::Late,
        Self::Lies,
        Self::Fails,
        Self::HangsUp,
    ];
}

const VERSION: u32 = 1;
const IS_REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// The back end, which listens on its own path until it is dropped.
pub struct BackEnd {
    folder: TempDir,
    thread: Option<JoinHandle<()>>,
}

impl BackEnd {
    /// Starts the thread, for one connection.
    pub fn start(when: Request, misdeed: Misdeed) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(socket(folder.path())).unwrap();
        let serve = move || {
            let (stream, _) = listener.accept().unwrap();
            // An error means that the other side has hung up.
            let _ = serve(stream, when, misdeed);
        };
        Self {
            folder,
            thread: Some(std::thread::spawn(serve)),
        }
    }

    /// The path on which the back end listens.
    pub fn path(&self) -> PathBuf {
        socket(self.folder.path())
    }

    /// Waits until the back end has seen that the other side has hung up.
    pub fn join(mut self) {
        self.thread.take().unwrap().join().unwrap();
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("socket")
}

/// A request: its number, whether it asks for an answer, and its payload.
fn receive(stream: &mut UnixStream) -> io::Result<(u32, bool, Vec<u8>)> {
    let mut header = [0; 12];
    stream.read_exact(&mut header)?;
    let word = |at| u32::from_le_bytes(<[u8; 4]>::try_from(&header[at..at + 4]).unwrap());
    let mut payload = vec![0; word(8) as usize];
    stream.read_exact(&mut payload)?;
    Ok((word(0), word(4) & NEED_REPLY != 0, payload))
}

fn reply(request: u32, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).unwrap();
    let header = [request, VERSION | IS_REPLY, size].map(u32::to_le_bytes);
    [header.as_flattened(), payload].concat()
}

/// The answer of a correct back end; `None` for a request that has no answer.
fn answer(request: u32, needs_reply: bool, payload: &[u8]) -> Option<Vec<u8>> {
    let word = |value: u64| value.to_le_bytes().to_vec();
    let payload = match request {
        // VHOST_USER_F_PROTOCOL_FEATURES, VIRTIO_F_VERSION_1.
        GET_FEATURES => word(1 << 30 | 1 << 32),
        // VHOST_USER_PROTOCOL_F_REPLY_ACK, VHOST_USER_PROTOCOL_F_CONFIG.
        GET_PROTOCOL_FEATURES => word(1 << 3 | 1 << 9),
        GET_CONFIG | GET_VRING_BASE => payload.to_vec(),
        _ if needs_reply => word(0),
        _ => return None,
    };
    Some(reply(request, &payload))
}

/// Reads until the other side hangs up.
fn read_all(stream: &mut UnixStream) {
    let _ = io::copy(stream, &mut io::sink());
}

fn serve(mut stream: UnixStream, (which, nth): Request, misdeed: Misdeed) -> io::Result<()> {
    let mut seen = 0;
    loop {
        let (request, needs_reply, payload) = receive(&mut stream)?;
        seen += usize::from(request == which);
        let answer = answer(request, needs_reply, &payload);
        if seen < nth {
            stream.write_all(&answer.unwrap_or_default())?;
            continue;
        }
        match misdeed {
            Misdeed::Mute => {
                read_all(&mut stream);
                return Ok(());
            }
            Misdeed::Deaf => {
                let epoll = Epoll::new()?;
                let end = EpollEvent::new(EventSet::READ_HANG_UP, 0);
                epoll.ctl(ControlOperation::Add, stream.as_raw_fd(), end)?;
                return epoll.wait(-1, &mut [EpollEvent::default()]).map(drop);
            }
            Misdeed::Trickles => {
                for byte in answer.unwrap_or_default() {
                    stream.write_all(&[byte])?;
                    std::thread::sleep(Duration::from_millis(700));
                }
            }
            Misdeed::Late => {
                read_all(&mut stream);
                return stream.write_all(&answer.unwrap_or_default());
            }
            Misdeed::Lies => stream.write_all(&reply(request + 1, &[1; 8]))?,
            Misdeed::Fails => {
                if answer.is_some() {
                    stream.write_all(&reply(request, &u64::MAX.to_le_bytes()))?;
                }
            }
            Misdeed::HangsUp => return Ok(()),
        }
    }
}
