//! The control sockets of VMMs: HTTP for Cloud Hypervisor and Firecracker, QMP for QEMU.
//!
//! Each call has a deadline, and what a VMM sends is bounded. The calling thread waits.

pub mod http;
pub mod qmp;

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum number of bytes of an answer.
const MOST: usize = 1 << 18;
/// How often a socket is looked for that the VMM has not made yet.
const RETRY: Duration = Duration::from_millis(1);

/// Why a command to a VMM failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The VMM does not accept a connection.
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

/// Connects to a VMM's socket, which may not exist yet. Both directions get the limit as their time limit.
pub fn connect(path: &Path, limit: Duration) -> Result<UnixStream, ApiError> {
    let begun = Instant::now();
    let connected = loop {
        match UnixStream::connect(path) {
            Err(_) if begun.elapsed() < limit => thread::sleep(RETRY),
            connected => break connected,
        }
    };
    let set = |stream: UnixStream| {
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        Ok(stream)
    };
    connected.and_then(set).map_err(|source| ApiError::Connect {
        path: path.to_owned(),
        source,
    })
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
