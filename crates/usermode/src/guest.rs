//! What a guest's handle, its vCPUs and their kicks share: the sandbox, guest memory, and the monitor's doorbells,
//! interrupt controllers and patcher. Any thread may use it.

use stub::layout::{MAX_VCPUS, PATCH_BASE};
use vm_memory::GuestMemoryMmap;
use vmbell::doorbell::{Datamatch, IoEventAddress, Pattern, Sharing};
use vmbell::eventfd::EventId;
use vmbell::irq::Gsi;
use vmbell_core::addresses::RAM_BASE;
use vmbell_hypervisor::{Error, RemoveDoorbell, SpinPolicy, VmConfig};
use vmm_sys_util::eventfd::EventFd;

use super::doorbells::Doorbells;
use super::error::UsermodeError;
use super::irqchip::Interrupts;
use super::patch::Patcher;
use super::payloads::Payloads;
use super::ram::{self, Ram};
use super::sandbox::Sandbox;

/// What a guest's vCPUs and their kicks share.
#[derive(Debug)]
pub struct UsermodeGuest {
    pub sandbox: Sandbox,
    pub memory: GuestMemoryMmap,
    pub doorbells: Doorbells,
    pub payloads: Payloads,
    pub patcher: Patcher,
    pub spin: SpinPolicy,
    pub interrupts: Option<Interrupts>,
    /// The host CPUs that the vCPUs are bound to; empty if they are not bound.
    pub vcpu_cpus: Vec<usize>,
}

impl UsermodeGuest {
    /// Starts the sandbox of a guest.
    pub fn new(config: &VmConfig) -> Result<Self, Error> {
        check(config)?;
        let Ram { memory, file } = Ram::of(config)?;
        let sandbox = Sandbox::start(config, &file)?;
        let patcher = Patcher::new(config.patch);
        Ok(Self {
            interrupts: Interrupts::new(config.irqchip, &sandbox)?,
            sandbox,
            memory,
            doorbells: Doorbells::new(config.max_items),
            payloads: Payloads::default(),
            patcher,
            spin: config.spin,
            vcpu_cpus: config.vcpu_cpus.clone(),
        })
    }

    /// Removes an irqfd, if the guest has interrupt controllers.
    pub fn remove_irqfd(&self, id: EventId, gsi: Gsi) -> Result<(), Error> {
        match &self.interrupts {
            Some(interrupts) => interrupts.deassign(&self.sandbox, id, gsi).map(drop),
            None => Ok(()),
        }
    }
}

fn check(config: &VmConfig) -> Result<(), Error> {
    if cfg!(not(all(target_arch = "x86_64", target_os = "linux"))) {
        return Err(UsermodeError::Architecture.into());
    }
    let most = u32::try_from(MAX_VCPUS).unwrap_or(u32::MAX);
    config.check(std::slice::from_ref(&(RAM_BASE..PATCH_BASE)), most)?;
    ram::check_device_memory(config)?;
    if !config.hidden.is_empty() {
        return Err(Error::Config {
            what: "hidden",
            value: format!("{:?}", config.hidden),
            rule: "empty, because CPUID of this backend is the host's".to_owned(),
        });
    }
    Ok(())
}

impl RemoveDoorbell for UsermodeGuest {
    fn remove_doorbell(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
        _sharing: Sharing,
    ) -> Result<(), Error> {
        let pattern = Pattern::from(datamatch);
        self.doorbells
            .unregister(&self.sandbox, event, address, pattern)
    }
}
