//! A worker that only records its calls, for tests of transports.

use std::sync::Arc;

use vhost::{
    VhostBackend, VhostUserDirtyLogRegion, VhostUserMemoryRegionBase, VhostUserMemoryRegionInfo,
    VringConfigData,
};

use super::vhost::{Worker, WorkerFeatures};
use vmbell::eventfd::EventFd;
use vmbell::sync::{Mutex, MutexGuard};

const INDIRECT: u64 = 1 << 28;
pub(super) const VERSION_1: u64 = 1 << 32;

/// The calls that the worker has recorded.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) features: u64,
    pub(super) memory: u64,
    pub(super) sizes: Vec<u16>,
    pub(super) calls: Vec<EventFd>,
    pub(super) kicks: Vec<EventFd>,
    pub(super) errors: Option<EventFd>,
    pub(super) running: Vec<usize>,
    pub(super) refuses: bool,
}

/// The worker that records its calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Double(Arc<Mutex<Told>>);

impl Double {
    pub(super) fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock()
    }
}

impl VhostBackend for Double {
    fn get_features(&self) -> vhost::Result<u64> {
        Ok(INDIRECT | VERSION_1)
    }

    fn set_features(&self, features: u64) -> vhost::Result<()> {
        self.told().features = features;
        Ok(())
    }

    fn set_owner(&self) -> vhost::Result<()> {
        Ok(())
    }

    fn reset_owner(&self) -> vhost::Result<()> {
        Ok(())
    }

    fn set_mem_table(
        &self,
        regions: &[VhostUserMemoryRegionInfo],
    ) -> vhost::Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        self.told().memory = regions.iter().map(|region| region.memory_size).sum();
        Ok(None)
    }

    fn set_log_base(&self, _: u64, _: Option<VhostUserDirtyLogRegion>) -> vhost::Result<()> {
        unreachable!("nothing is logged")
    }

    fn set_log_fd(&self, _: i32) -> vhost::Result<()> {
        unreachable!("nothing is logged")
    }

    fn set_vring_num(&self, _: usize, num: u16) -> vhost::Result<()> {
        self.told().sizes.push(num);
        Ok(())
    }

    fn set_vring_addr(&self, _: usize, _: &VringConfigData) -> vhost::Result<()> {
        Ok(())
    }

    fn set_vring_base(&self, _: usize, base: u16) -> vhost::Result<()> {
        assert_eq!(base, 0);
        Ok(())
    }

    fn get_vring_base(&self, _: usize) -> vhost::Result<u32> {
        Ok(0)
    }

    fn set_vring_call(&self, _: usize, fd: &EventFd) -> vhost::Result<()> {
        self.told().calls.push(fd.try_clone().unwrap());
        Ok(())
    }

    fn set_vring_kick(&self, _: usize, fd: &EventFd) -> vhost::Result<()> {
        self.told().kicks.push(fd.try_clone().unwrap());
        Ok(())
    }

    fn set_vring_err(&self, _: usize, fd: &EventFd) -> vhost::Result<()> {
        self.told().errors = Some(fd.try_clone().unwrap());
        Ok(())
    }
}

impl Worker for Double {
    const DEVICE_ID: u32 = 1;
    const NAME: &'static str = "double";
    const QUEUES: u16 = 3;
    const SERVED: u16 = 2;

    type Backend = Self;

    fn backend(&self) -> &Self {
        self
    }

    fn features(&self) -> WorkerFeatures {
        WorkerFeatures {
            known: INDIRECT | VERSION_1,
            others: 1 << 5,
            own: 0,
        }
    }

    fn config(&self) -> &[u8] {
        b"config"
    }

    fn set_running(&self, queues: &[usize], running: bool) -> vhost::Result<()> {
        let mut told = self.told();
        told.running.retain(|queue| !queues.contains(queue));
        if running {
            if told.refuses {
                return Err(vhost::Error::InvalidQueue);
            }
            told.running.extend(queues);
        }
        Ok(())
    }
}
