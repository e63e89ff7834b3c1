//! The backend: creates guests, and reports which capabilities it has on this host. To find out whether a guest can
//! run, it starts one on the calling thread.

use std::sync::{Arc, OnceLock};

use super::capability::{BACKEND, why_never};
use super::vm::UsermodeVm;
use vmbell_hypervisor::{Capability, Error, Hypervisor, Support, Vm, VmConfig, chain};

/// The usermode backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usermode;

impl Hypervisor for Usermode {
    fn name(&self) -> &'static str {
        BACKEND
    }

    fn support(&self, capability: Capability) -> Support {
        support(capability)
    }

    fn create_vm(&self, config: &VmConfig) -> Result<Arc<dyn Vm>, Error> {
        Ok(Arc::new(UsermodeVm::new(config)?))
    }
}

/// Returns whether the backend has `capability` here, and if not, why.
fn support(capability: Capability) -> Support {
    if let Some(reason) = why_never(capability) {
        return Support::No(reason.into());
    }
    match (capability, run()) {
        (Capability::Run, support) => support,
        (_, Support::Yes) => Support::Yes,
        (_, Support::No(_)) => Support::No("no guest can run".into()),
    }
}

/// Starts a sandbox to find out whether a sandbox can run. A success is remembered; after a failure the next call tries
/// again, because the cause may be gone.
fn run() -> Support {
    static STARTED: OnceLock<()> = OnceLock::new();
    if STARTED.get().is_some() {
        return Support::Yes;
    }
    let config = VmConfig {
        ram_size: 4096,
        ..VmConfig::default()
    };
    match Usermode.create_vm(&config) {
        Ok(_) => {
            let _ = STARTED.set(());
            Support::Yes
        }
        Err(error) => Support::No(chain(&error)),
    }
}
