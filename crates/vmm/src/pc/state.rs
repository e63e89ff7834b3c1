//! The state of a PC, and the request to save it. Any thread may make the request.

use std::fmt;

use serde::de::{Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use vm_memory::GuestMemoryMmap;
use vmbell::sync::Mutex;
use vmbell_devices::pci::PciState;
use vmbell_devices::{IoApicRegisters, UartState};
use vmbell_hypervisor::{VcpuState, VmState};

use super::layout::VCPUS_MAX;
use crate::error::BoardError;
#[cfg(doc)]
use crate::stop::Stop;

/// The state of a PC, without its RAM, its disks and its [`PcConfig`](super::PcConfig).
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PcState {
    /// Bytes of RAM.
    pub(super) memory: u64,
    #[serde(deserialize_with = "vcpus")]
    pub(super) vcpus: Vec<VcpuState>,
    pub(super) controllers: VmState,
    pub(super) io_apic: IoApicRegisters,
    pub(super) pci: PciState,
    pub(super) serial: UartState,
}

impl PcState {
    /// The size of the RAM in bytes.
    pub const fn memory(&self) -> u64 {
        self.memory
    }

    /// The number of vCPUs.
    pub const fn vcpus(&self) -> usize {
        self.vcpus.len()
    }
}

/// Reads the vCPUs' states, and none beyond the number that a PC can have.
fn vcpus<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<VcpuState>, D::Error> {
    struct Vcpus;

    impl<'de> Visitor<'de> for Vcpus {
        type Value = Vec<VcpuState>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {VCPUS_MAX} vcpus")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
            let mut vcpus = Vec::new();
            while vcpus.len() < usize::from(VCPUS_MAX) {
                let Some(vcpu) = from.next_element()? else {
                    return Ok(vcpus);
                };
                vcpus.push(vcpu);
            }
            match from.next_element::<IgnoredAny>()? {
                Some(IgnoredAny) => Err(A::Error::invalid_length(vcpus.len() + 1, &self)),
                None => Ok(vcpus),
            }
        }
    }

    from.deserialize_seq(Vcpus)
}

/// What takes a saved guest, and says whether the guest goes on.
pub(super) type TakeState =
    dyn FnOnce(Result<PcState, BoardError>, &GuestMemoryMmap) -> AfterSave + Send;

/// The request to save a PC, from any thread.
#[derive(Default)]
pub(super) struct SaveRequest(Mutex<Request>);

#[derive(Default)]
struct Request {
    take: Option<Box<TakeState>>,
    /// Whether the run is over, so that no request is answered any more.
    is_over: bool,
}

impl SaveRequest {
    /// Makes the request. Returns false, and drops it, if another one waits or the run is over.
    pub(super) fn make(&self, take: Box<TakeState>) -> bool {
        let mut request = self.0.lock();
        let is_made = request.take.is_none() && !request.is_over;
        if is_made {
            request.take = Some(take);
        }
        is_made
    }

    pub(super) fn is_made(&self) -> bool {
        self.0.lock().take.is_some()
    }

    pub(super) fn take(&self) -> Option<Box<TakeState>> {
        self.0.lock().take.take()
    }

    /// Accepts requests until the result is dropped, so also until the run fails or panics.
    pub(super) const fn during_run(&self) -> DuringRun<'_> {
        DuringRun(self)
    }
}

/// Refuses requests from its drop on, and drops the one that came too late.
pub(super) struct DuringRun<'r>(&'r SaveRequest);

impl Drop for DuringRun<'_> {
    fn drop(&mut self) {
        let mut request = self.0.0.lock();
        request.is_over = true;
        let late = request.take.take();
        // Dropped without the lock, because it may own anything.
        drop(request);
        drop(late);
    }
}

impl fmt::Debug for SaveRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SaveRequest").field(&self.is_made()).finish()
    }
}

/// What a PC does after it was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterSave {
    /// The guest goes on.
    GoOn,
    /// The run ends, as if it was [kicked](Stop::Kicked). The devices stay paused, so that only copies of the guest
    /// execute the requests that are open.
    End,
}

#[cfg(test)]
#[path = "state_test.rs"]
mod tests;
