//! The socket device (virtio 1.3, 5.10): connections between programs of the guest and of the host, without a network.
//! The kernel's vhost-vsock carries the data.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use vhost::vhost_kern::vsock::Vsock as Kernel;
use vhost::vsock::VhostVsock as _;
use vm_memory::GuestMemoryMmap;

use super::error::VhostError;
use super::{Worker, WorkerFeatures, take};
use crate::virtio::ring::{EVENT_IDX, INDIRECT_DESC, VERSION_1};

const DEVICE: &str = "/dev/vhost-vsock";
/// Sockets that preserve message boundaries.
const SEQPACKET: u64 = 1 << 1;

/// The address of a guest for programs of its host: 3 or more, because smaller numbers are reserved, and below 2^32 -
/// 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cid(u32);

/// The number is not a context ID of a guest.
#[derive(Debug, thiserror::Error)]
#[error("'{text}' is not a context ID of a guest: use a number from 3 to 4294967294")]
pub struct CidError {
    text: String,
}

impl FromStr for Cid {
    type Err = CidError;

    fn from_str(text: &str) -> Result<Self, CidError> {
        let number = text.parse().ok();
        let number = number.filter(|number| (3..u32::MAX).contains(number));
        number.map(Self).ok_or_else(|| CidError {
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for Cid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The guest's sockets, carried by the kernel.
pub struct VhostVsock {
    kernel: Kernel<Arc<GuestMemoryMmap>>,
    known: u64,
    config: [u8; 8],
}

impl VhostVsock {
    /// Creates the sockets of a guest with this memory and context ID.
    ///
    /// # Errors
    ///
    /// The error says what the user can do.
    pub fn open(memory: &GuestMemoryMmap, cid: Cid) -> Result<Self, VhostError> {
        let kernel = Kernel::new(Arc::new(memory.clone())).map_err(|source| VhostError::Open {
            device: DEVICE,
            module: "vhost_vsock",
            source,
        })?;
        let features = take(&kernel, DEVICE)?;
        let number = u64::from(cid.0);
        kernel
            .set_guest_cid(number)
            .map_err(|source| match source {
                vhost::Error::IoctlError(ref error)
                    if error.raw_os_error() == Some(libc::EADDRINUSE) =>
                {
                    VhostError::CidTaken { cid: number }
                }
                source => VhostError::refused(DEVICE, "take the context ID")(source),
            })?;
        Ok(Self {
            kernel,
            known: features & (INDIRECT_DESC | EVENT_IDX | VERSION_1 | SEQPACKET),
            config: number.to_le_bytes(),
        })
    }
}

impl Worker for VhostVsock {
    const DEVICE_ID: u32 = 19;
    const NAME: &'static str = "virtio-vsock";
    const QUEUES: u16 = 3;
    /// The third queue is for the events of a guest that has been moved to another host.
    const SERVED: u16 = 2;

    type Backend = Kernel<Arc<GuestMemoryMmap>>;

    fn backend(&self) -> &Self::Backend {
        &self.kernel
    }

    fn features(&self) -> WorkerFeatures {
        WorkerFeatures {
            known: self.known,
            ..WorkerFeatures::default()
        }
    }

    fn config(&self) -> &[u8] {
        &self.config
    }

    /// The kernel's worker starts and stops both queues together.
    fn set_running(&self, _queues: &[usize], running: bool) -> vhost::Result<()> {
        if running {
            self.kernel.start()
        } else {
            self.kernel.stop()
        }
    }
}

impl fmt::Debug for VhostVsock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VhostVsock")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
