//! The block device (virtio 1.3, 5.2) whose queue another process serves: a vhost-user back end on a Unix socket (QEMU
//! `docs/interop/vhost-user.rst`). The back end maps the guest's memory, which must therefore be a file's.
//!
//! The back end is not trusted to answer. If the requests of a connection, a start or a stop together take longer than
//! [`PATIENCE`], they fail, and so do all later requests.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use vhost::VhostBackend;
use vhost::vhost_user::message::VhostUserConfigFlags;
use vhost::vhost_user::message::VhostUserHeaderFlag;
use vhost::vhost_user::{
    Frontend, VhostUserFrontend, VhostUserProtocolFeatures, VhostUserVirtioFeatures,
};
use vm_memory::{GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};

use super::error::VhostUserError;
use super::time_limit::TimeLimit;
use super::{Worker, WorkerFeatures};
use crate::virtio::ring::{EVENT_IDX, INDIRECT_DESC, VERSION_1};

/// How long the requests of a connection, of a start or of a stop may take together.
const PATIENCE: Duration = Duration::from_secs(5);

/// Features of the block device (virtio 1.3, 5.2.3) up to secure erase, except for several queues.
const OF_BLK: u64 = 0x1_ffff & !(1 << 12);
/// Bytes of the device's configuration up to `write_zeroes_may_unmap`.
const CONFIG: u32 = 60;

/// Why the guest has lost a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// The back end has hung up.
    HungUp,
    /// The back end has left requests unanswered for too long, so that the connection was shut down.
    Unanswered,
}

/// Called when the back end has gone.
pub type OnGone = Box<dyn Fn(Gone) + Send + Sync>;

/// A disk that another process provides.
pub struct VhostUserBlk {
    frontend: Frontend,
    socket: UnixStream,
    limit: TimeLimit,
    path: PathBuf,
    features: WorkerFeatures,
    config: Vec<u8>,
    on_gone: OnGone,
}

impl VhostUserBlk {
    /// Connects to the back end that listens at `path`, for a guest with this memory. The memory must be a file's, as
    /// [`shared_memory`](vmbell_hypervisor::shared_memory) makes it.
    ///
    /// # Errors
    ///
    /// The error says what the user can do.
    pub fn connect(
        memory: &GuestMemoryMmap,
        path: &Path,
        on_gone: OnGone,
    ) -> Result<Self, VhostUserError> {
        Self::connect_within(PATIENCE, memory, path, on_gone)
    }

    /// Like [`connect`](Self::connect), but with this time limit instead of [`PATIENCE`].
    pub(crate) fn connect_within(
        patience: Duration,
        memory: &GuestMemoryMmap,
        path: &Path,
        on_gone: OnGone,
    ) -> Result<Self, VhostUserError> {
        if memory.iter().any(|region| region.file_offset().is_none()) {
            return Err(VhostUserError::Memory { path: path.into() });
        }
        let failed = |source| VhostUserError::Connect {
            path: path.into(),
            source,
        };
        let socket = connected(path, patience).map_err(failed)?;
        let limit = TimeLimit::new(&socket, patience).map_err(failed)?;
        let theirs = socket.try_clone().map_err(failed)?;
        let mut frontend = Frontend::from_stream(theirs, 1);
        let mut operation = "serve this process";
        let negotiated = limit.apply(|| {
            frontend.set_owner()?;
            operation = "report its features";
            let features = frontend.get_features()?;
            operation = "report the disk's size";
            Ok((features, negotiate(&mut frontend, features)?))
        });
        let (features, config) = negotiated.map_err(|source| {
            let (path, limited) = (path.into(), limit.has_expired());
            if limited {
                return VhostUserError::Unanswered {
                    path,
                    operation,
                    limit: patience,
                };
            }
            VhostUserError::Refused {
                path,
                operation,
                source,
            }
        })?;
        Ok(Self {
            frontend,
            socket,
            limit,
            path: path.into(),
            features: WorkerFeatures {
                known: features & (OF_BLK | INDIRECT_DESC | EVENT_IDX | VERSION_1),
                others: 0,
                own: VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits(),
            },
            config,
            on_gone,
        })
    }
}

/// Connects to a socket. If the listener accepts nothing and its backlog is full, fails when `patience` has passed.
fn connected(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    match net::connect(&socket, &address) {
        Err(Errno::AGAIN) => {
            let text = format!("it accepts no connection within {patience:?}");
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        }
        result => Ok(result.map(|()| socket.into())?),
    }
}

/// Chooses the protocol's features, and asks for the configuration.
fn negotiate(frontend: &mut Frontend, features: u64) -> vhost::Result<Vec<u8>> {
    let wanted = VhostUserProtocolFeatures::CONFIG | VhostUserProtocolFeatures::REPLY_ACK;
    let offered = frontend.get_protocol_features()?;
    frontend.set_protocol_features(offered & wanted)?;
    if offered.contains(VhostUserProtocolFeatures::REPLY_ACK) {
        // Without this flag, a back end that cannot map the memory or take a queue does not report that.
        frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    }
    // Some back ends accept no choice without VERSION_1. The driver's choice follows when the driver has made it.
    let now = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() | VERSION_1;
    frontend.set_features(features & now)?;
    let room = vec![0; CONFIG as usize];
    let flags = VhostUserConfigFlags::empty();
    let (_, config) = frontend.get_config(0, CONFIG, flags, &room)?;
    Ok(config)
}

impl Worker for VhostUserBlk {
    const DEVICE_ID: u32 = 2;
    const NAME: &'static str = "vhost-user-blk";
    const QUEUES: u16 = 1;
    const SERVED: u16 = 1;
    const HOST_ADDRESSES: bool = true;

    type Backend = Frontend;

    fn backend(&self) -> &Frontend {
        &self.frontend
    }

    fn features(&self) -> WorkerFeatures {
        self.features
    }

    fn config(&self) -> &[u8] {
        &self.config
    }

    fn set_running(&self, queues: &[usize], running: bool) -> vhost::Result<()> {
        // The requests of all clones go through one connection.
        let mut frontend = self.frontend.clone();
        for queue in queues {
            frontend.set_vring_enable(*queue, running)?;
            if !running {
                // This request stops the ring; the returned position is of no use after a reset.
                frontend.get_vring_base(*queue)?;
            }
        }
        Ok(())
    }

    fn request<T>(&self, requests: impl FnOnce() -> vhost::Result<T>) -> vhost::Result<T> {
        self.limit.apply(requests)
    }

    fn connection(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn gone(&self) {
        (self.on_gone)(if self.limit.has_expired() {
            Gone::Unanswered
        } else {
            Gone::HungUp
        });
    }
}

impl fmt::Debug for VhostUserBlk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VhostUserBlk")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use vm_memory::GuestAddress;

    use super::*;

    #[test]
    fn back_end_that_could_not_map_the_memory_is_not_asked() {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x1000)]).unwrap();
        let path = Path::new("/run/disk.sock");
        let error = VhostUserBlk::connect(&memory, path, Box::new(|_| {})).unwrap_err();
        let text = "the guest's memory is not that of a file, so the back end at /run/disk.sock cannot map it";
        assert_eq!(error.to_string(), text);
    }
}
