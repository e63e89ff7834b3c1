//! The control sockets of VMMs: HTTP for Cloud Hypervisor and Firecracker, QMP for QEMU.
//!
//! Each call has a deadline, and what a VMM sends is bounded. The calling thread waits.

pub mod http;
pub mod qmp;

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// The maximum number of bytes of an answer.
const MOST: usize = 1 << 18;
/// How often a socket is looked for that the VMM has not made yet.
const RETRY: Duration = Duration::from_millis(1);

/// Why a command to a VMM failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The VMM ended, and so does not accept a connection.
    #[error("cannot connect to the VMM's socket {path}: {source}", path = path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The connection broke.
    #[error("{command}: the VMM's socket failed: {source}")]
    Socket {
        /// The command.
        command: String,
        /// The system's error.
        source: io::Error,
    },
    /// The VMM did not answer in time.
    #[error("{command}: the VMM did not answer within {limit:?}")]
    TimedOut {
        /// The command.
        command: String,
        /// The limit.
        limit: Duration,
    },
    /// The answer does not follow the protocol, or is too long.
    #[error("{command}: the VMM's answer is not valid")]
    Invalid {
        /// The command.
        command: String,
    },
    /// The VMM refused the command.
    #[error("{command}: the VMM refuses: {reason}")]
    Refused {
        /// The command.
        command: String,
        /// The VMM's own message.
        reason: String,
    },
}

/// A connection whose reads and writes all have to end by one deadline.
#[derive(Debug)]
pub struct DeadlineStream {
    stream: UnixStream,
    end: Instant,
}

impl DeadlineStream {
    /// A connection that may be used for this time.
    pub fn new(stream: UnixStream, limit: Duration) -> Self {
        Self {
            stream,
            end: Instant::now() + limit,
        }
    }

    /// Connects to a VMM's socket, which may not exist yet; gives up once the VMM has ended.
    pub fn connect(
        path: &Path,
        limit: Duration,
        has_ended: impl Fn() -> bool,
    ) -> Result<Self, ApiError> {
        let end = Instant::now() + limit;
        loop {
            // Asked before connecting, so that a VMM that ends meanwhile is seen in the next round.
            let has_ended = has_ended();
            match connect(path) {
                Ok(stream) => return Ok(Self { stream, end }),
                Err(source) if has_ended => {
                    let path = path.to_owned();
                    return Err(ApiError::Connect { path, source });
                }
                Err(_) if Instant::now() >= end => {
                    return Err(ApiError::TimedOut {
                        command: format!("connect to {}", path.display()),
                        limit,
                    });
                }
                Err(_) => thread::sleep(RETRY),
            }
        }
    }

    /// Sets the deadline for the next command.
    fn restart(&mut self, limit: Duration) {
        self.end = Instant::now() + limit;
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        // A time limit of zero would mean none.
        (!left.is_zero())
            .then_some(left)
            .ok_or_else(|| ErrorKind::TimedOut.into())
    }
}

impl Read for DeadlineStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(bytes)
    }
}

impl Write for DeadlineStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Connects without waiting: the backlog of a VMM whose thread hangs may be full.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn failed(command: &str, limit: Duration, source: io::Error) -> ApiError {
    let command = command.to_owned();
    match source.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ApiError::TimedOut { command, limit },
        _ => ApiError::Socket { command, source },
    }
}

/// A VMM's message on one line, without control characters.
fn visible(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(300).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_vmm_that_ends_is_not_waited_for() {
        let nowhere = Path::new("/nonexistent/socket");
        let connect = |limit, has_ended| DeadlineStream::connect(nowhere, limit, move || has_ended);
        let error = connect(Duration::from_secs(60), true).unwrap_err();
        assert!(matches!(error, ApiError::Connect { .. }), "{error}");
        let error = connect(Duration::from_millis(5), false).unwrap_err();
        assert!(matches!(error, ApiError::TimedOut { .. }), "{error}");
    }

    #[test]
    fn a_vmm_that_accepts_no_connection_is_not_waited_for_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        net::listen(&listener, 0).unwrap();
        let waiting = UnixStream::connect(&socket).unwrap();
        let limit = Duration::from_millis(5);
        let error = DeadlineStream::connect(&socket, limit, || false).unwrap_err();
        assert!(matches!(error, ApiError::TimedOut { .. }), "{error}");
        drop((waiting, listener));
    }

    #[test]
    fn a_vmm_that_sends_a_little_now_and_then_does_not_move_the_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b".").is_ok() {
                thread::sleep(RETRY);
            }
        });
        let limit = Duration::from_millis(50);
        let mut stream = DeadlineStream::connect(&socket, limit, || false).unwrap();
        let error = io::copy(&mut stream, &mut io::sink()).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock),
            "{error}"
        );
        drop(stream);
        server.join().unwrap();
    }
}
