//! The network device (virtio 1.3, 5.1) on a tap; vhost-net moves its packets.

use std::fmt;
use std::os::fd::AsFd;
use std::sync::Arc;

use vhost::net::VhostNet as _;
use vhost::vhost_kern::net::Net as Kernel;
use vm_memory::GuestMemoryMmap;

use super::error::VhostError;
use super::{Worker, WorkerFeatures, take};
use crate::virtio::net::{Mac, NET_QUEUES, Offloads, Tap, config, offload};
use crate::virtio::ring::{EVENT_IDX, INDIRECT_DESC, VERSION_1};

const DEVICE: &str = "/dev/vhost-net";
/// A packet may span several buffers.
const MRG_RXBUF: u64 = 1 << 15;

/// A network interface of the guest, connected to a tap.
pub struct VhostNet {
    kernel: Kernel<Arc<GuestMemoryMmap>>,
    tap: Tap,
    /// A duplicate of the tap's descriptor, for the worker.
    file: std::fs::File,
    features: WorkerFeatures,
    config: [u8; 8],
}

impl VhostNet {
    /// Creates an interface with this address, for a guest with this memory.
    ///
    /// # Errors
    ///
    /// The error says what the user can do.
    pub fn open(
        memory: &GuestMemoryMmap,
        tap: Tap,
        mac: Mac,
        offloads: Offloads,
    ) -> Result<Self, VhostError> {
        let kernel = Kernel::new(Arc::new(memory.clone())).map_err(|source| VhostError::Open {
            device: DEVICE,
            module: "vhost_net",
            source,
        })?;
        let features = take(&kernel, DEVICE)?;
        let file = tap.as_fd().try_clone_to_owned();
        let file = file
            .map_err(vhost::Error::IOError)
            .map_err(VhostError::refused(DEVICE, "take the tap"))?;
        Ok(Self {
            kernel,
            tap,
            file: file.into(),
            features: WorkerFeatures {
                known: features & (INDIRECT_DESC | EVENT_IDX | VERSION_1 | MRG_RXBUF),
                others: offload::ALWAYS | offloads.with_merged_buffers(),
                own: 0,
            },
            config: config(mac),
        })
    }
}

impl Worker for VhostNet {
    const DEVICE_ID: u32 = 1;
    const NAME: &'static str = "virtio-net";
    const QUEUES: u16 = NET_QUEUES;
    const SERVED: u16 = NET_QUEUES;

    type Backend = Kernel<Arc<GuestMemoryMmap>>;

    fn backend(&self) -> &Self::Backend {
        &self.kernel
    }

    fn features(&self) -> WorkerFeatures {
        self.features
    }

    fn config(&self) -> &[u8] {
        &self.config
    }

    fn accepted(&self, features: u64) -> vhost::Result<()> {
        self.tap.accept(features).map_err(vhost::Error::IOError)
    }

    fn set_running(&self, queues: &[usize], running: bool) -> vhost::Result<()> {
        for queue in queues {
            self.kernel
                .set_backend(*queue, running.then_some(&self.file))?;
        }
        Ok(())
    }
}

impl fmt::Debug for VhostNet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VhostNet")
            .field("tap", &self.tap)
            .finish_non_exhaustive()
    }
}
