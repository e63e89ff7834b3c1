//! A guest of the usermode engine.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use stub::layout::{MAX_VCPUS, PAGE, PATCH_BASE, RAM_BASE, RAM_OFFSET};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;

use super::super::{ExitCounts, Irqchip, PatchMode, SpinPolicy, Vm, VmConfig};
use super::doorbells::{Doorbells, light_exits};
use super::error::UsermodeError;
use super::patch::Patcher;
use super::sandbox::Sandbox;
use super::vcpu::UsermodeVcpu;
use crate::doorbell::{Datamatch, IoEventAddress, Pattern, Sharing};
use crate::irq::{Gsi, Msi, Route};

/// What everything about interrupts answers.
pub(super) const NO_INTERRUPTS: UsermodeError = UsermodeError::Unsupported {
    what: "interrupt controllers",
};

/// What a guest's vCPUs and their kicks share.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) sandbox: Sandbox,
    pub(super) memory: GuestMemoryMmap,
    pub(super) patcher: Patcher,
    pub(super) spin: SpinPolicy,
}

/// A guest that runs in a sandbox process, which ends with it.
#[derive(Debug)]
pub struct UsermodeVm {
    guest: Arc<Guest>,
    doorbells: Doorbells,
    taken: Mutex<Vec<bool>>,
}

impl UsermodeVm {
    pub(super) fn new(config: &VmConfig) -> Result<Self, UsermodeError> {
        check(config)?;
        let sandbox = Sandbox::start(config)?;
        let memory = |source| UsermodeError::Memory {
            size: config.ram_size,
            source,
        };
        let size = usize::try_from(config.ram_size).unwrap_or(usize::MAX);
        let file = sandbox
            .writable
            .try_clone()
            .map_err(|source| UsermodeError::System {
                operation: "duplicate a memory file",
                source,
            })?;
        let ranges = [(
            GuestAddress(RAM_BASE),
            size,
            Some(FileOffset::new(file, RAM_OFFSET)),
        )];
        let memory = GuestMemoryMmap::from_ranges_with_files(ranges).map_err(memory)?;
        let patcher = Patcher::new(config.patch);
        let guest = Guest {
            sandbox,
            memory,
            patcher,
            spin: config.spin,
        };
        let taken = vec![false; config.vcpus as usize];
        Ok(Self {
            guest: Arc::new(guest),
            doorbells: Doorbells::new(config.max_items),
            taken: Mutex::new(taken),
        })
    }
}

fn check(config: &VmConfig) -> Result<(), UsermodeError> {
    if cfg!(not(all(target_arch = "x86_64", target_os = "linux"))) {
        return Err(UsermodeError::Architecture);
    }
    if config.ram_base != RAM_BASE {
        return Err(UsermodeError::Config {
            what: "ram_base",
            value: config.ram_base,
            rule: format!("{RAM_BASE:#x}"),
        });
    }
    if config.irqchip != Irqchip::None {
        return Err(NO_INTERRUPTS);
    }
    let most = PATCH_BASE - RAM_BASE;
    if config.ram_size == 0 || !config.ram_size.is_multiple_of(PAGE) || config.ram_size > most {
        let rule = format!("a multiple of {PAGE} from {PAGE} to {most:#x}");
        return Err(UsermodeError::Config {
            what: "ram_size",
            value: config.ram_size,
            rule,
        });
    }
    if config.vcpus == 0 || config.vcpus as usize > MAX_VCPUS {
        let rule = format!("from 1 to {MAX_VCPUS}");
        return Err(UsermodeError::Config {
            what: "vcpus",
            value: config.vcpus.into(),
            rule,
        });
    }
    if config.patch == PatchMode::Jmp && config.vcpus > 1 {
        return Err(UsermodeError::JmpNeedsOneVcpu {
            vcpus: config.vcpus,
        });
    }
    Ok(())
}

impl Vm for UsermodeVm {
    type Error = UsermodeError;
    type Vcpu = UsermodeVcpu;

    fn memory(&self) -> &GuestMemoryMmap {
        &self.guest.memory
    }

    fn create_vcpu(&self, index: u32) -> Result<UsermodeVcpu, UsermodeError> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let vcpus = u32::try_from(taken.len()).unwrap_or(u32::MAX);
        match taken.get_mut(index as usize) {
            Some(slot) if !*slot => {
                *slot = true;
                Ok(UsermodeVcpu::new(Arc::clone(&self.guest), index as usize))
            }
            _ => Err(UsermodeError::Vcpu { index, vcpus }),
        }
    }

    fn register_ioevent(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Result<(), UsermodeError> {
        self.doorbells.register(
            &self.guest.sandbox,
            event,
            address,
            Pattern::from(datamatch),
            sharing,
        )
    }

    fn unregister_ioevent(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
    ) -> Result<(), UsermodeError> {
        self.doorbells.unregister(
            &self.guest.sandbox,
            event,
            address,
            Pattern::from(datamatch),
        )
    }

    fn register_coalesced(&self, _address: u64, _len: u32) -> Result<(), UsermodeError> {
        let what = "coalesced writes";
        Err(UsermodeError::Unsupported { what })
    }

    fn register_irqfd(
        &self,
        _: &EventFd,
        _: Gsi,
        _: Option<&EventFd>,
    ) -> Result<(), UsermodeError> {
        Err(NO_INTERRUPTS)
    }

    fn unregister_irqfd(&self, _: &EventFd, _: Gsi) -> Result<(), UsermodeError> {
        Err(NO_INTERRUPTS)
    }

    fn set_routing(&self, _: &[Route]) -> Result<(), UsermodeError> {
        Err(NO_INTERRUPTS)
    }

    fn set_line(&self, _: Gsi, _: bool) -> Result<(), UsermodeError> {
        Err(NO_INTERRUPTS)
    }

    fn signal_msi(&self, _: Msi) -> Result<bool, UsermodeError> {
        Err(NO_INTERRUPTS)
    }

    fn exit_counts(&self) -> ExitCounts {
        let runs = &self.guest.sandbox.shared.runs;
        let heavy = runs
            .iter()
            .map(|run| run.counters.heavy.load(Relaxed))
            .fold(0, u64::wrapping_add);
        ExitCounts {
            light: light_exits(&self.guest.sandbox),
            heavy,
        }
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.guest.sandbox.process().pid().cast_unsigned()]
    }
}
