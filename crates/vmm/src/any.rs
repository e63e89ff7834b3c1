//! One type for all backends, for a VMM that does not want to be generic over them: each call goes to the backend
//! behind it, on the caller's thread.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::eventfd::EventFd;
use vmbell::irq::{ForwardedLine, Gic, Gsi, Msi, Route};
use vmbell::memory::GuestMemoryMmap;
#[cfg(not(target_arch = "x86_64"))]
use vmbell_hypervisor::absent::Usermode;
use vmbell_hypervisor::kvm::Kvm;
use vmbell_hypervisor::{
    AssignedDevices, BareExit, BareLoop, Capability, DeviceMemory, EntryPoint, Error, EventCounter,
    ExitCounts, ForwardedInterrupt, Hypervisor, IoEvents, IrqTrigger, Irqs, Kick, Support, Vcpu,
    Vm, VmConfig, VmEntry, VmExit,
};
#[cfg(target_arch = "x86_64")]
use vmbell_usermode::Usermode;

type KvmVm = <Kvm as Hypervisor>::Vm;
type UsermodeVm = <Usermode as Hypervisor>::Vm;

/// Any backend.
#[derive(Clone, Debug)]
pub enum AnyHypervisor {
    /// The kernel's KVM.
    Kvm(Kvm),
    /// The engine that needs no `/dev/kvm`.
    Usermode(Usermode),
}

/// A guest of any backend.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a VMM has one or a few of them")]
pub enum AnyVm {
    /// A guest of KVM.
    Kvm(KvmVm),
    /// A guest of the usermode backend.
    Usermode(UsermodeVm),
}

/// A vCPU of any backend.
#[derive(Debug)]
pub enum AnyVcpu {
    /// A vCPU of KVM.
    Kvm(<KvmVm as Vm>::Vcpu),
    /// A vCPU of the usermode backend.
    Usermode(<UsermodeVm as Vm>::Vcpu),
}

/// The backend that [`choose_backend`] has chosen.
#[derive(Debug)]
pub struct ChosenBackend {
    /// The backend.
    pub hypervisor: AnyHypervisor,
    /// Why it is not KVM; `None` if it is.
    pub why_not_kvm: Option<Error>,
}

/// Chooses the backend: KVM if `/dev/kvm` opens and has all that is `needed`, else the usermode backend.
///
/// Fails with [`Error::NoBackend`] if neither has all of it. Without [`Capability::Run`] in `needed`, nobody tries
/// whether a guest can run on the usermode backend; then [`create_vm`](Hypervisor::create_vm) tells.
///
/// ```
/// use vmbell_hypervisor::{Capability, Hypervisor, VmConfig};
/// use vmbell_vmm::choose_backend;
///
/// # fn main() -> Result<(), vmbell_hypervisor::Error> {
/// let chosen = choose_backend(&[Capability::Run, Capability::PioDoorbell])?;
/// if let Some(error) = &chosen.why_not_kvm {
///     eprintln!("{} because {error}", chosen.hypervisor.name());
/// }
/// let vm = chosen.hypervisor.create_vm(&VmConfig::default())?;
/// # drop(vm);
/// # Ok(())
/// # }
/// ```
pub fn choose_backend(needed: &[Capability]) -> Result<ChosenBackend, Error> {
    let kvm = match Kvm::open().and_then(|kvm| with(kvm, needed)) {
        Ok(kvm) => {
            return Ok(ChosenBackend {
                hypervisor: AnyHypervisor::Kvm(kvm),
                why_not_kvm: None,
            });
        }
        Err(error) => error,
    };
    match with(Usermode, needed) {
        Ok(usermode) => Ok(ChosenBackend {
            hypervisor: AnyHypervisor::Usermode(usermode),
            why_not_kvm: Some(kvm),
        }),
        Err(usermode) => Err(Error::NoBackend {
            kvm: Box::new(kvm),
            usermode: Box::new(usermode),
        }),
    }
}

/// The backend, if it has all that is needed.
fn with<H: Hypervisor>(hypervisor: H, needed: &[Capability]) -> Result<H, Error> {
    needed
        .iter()
        .try_for_each(|capability| hypervisor.require(*capability))?;
    Ok(hypervisor)
}

/// Evaluates an expression with the backend's own value.
macro_rules! each {
    ($any:expr, $own:ident => $call:expr) => {
        match $any {
            Self::Kvm($own) => $call,
            Self::Usermode($own) => $call,
        }
    };
}

impl Hypervisor for AnyHypervisor {
    type Vm = AnyVm;

    fn name(&self) -> &'static str {
        each!(self, own => own.name())
    }

    fn support(&self, capability: Capability) -> Support {
        each!(self, own => own.support(capability))
    }

    fn create_vm(&self, config: &VmConfig) -> Result<AnyVm, Error> {
        match self {
            Self::Kvm(kvm) => kvm.create_vm(config).map(AnyVm::Kvm),
            Self::Usermode(usermode) => usermode.create_vm(config).map(AnyVm::Usermode),
        }
    }

    fn bare_loop(&self, exit: BareExit) -> Result<Box<dyn BareLoop>, Error> {
        each!(self, own => own.bare_loop(exit))
    }
}

impl Vm for AnyVm {
    type Vcpu = AnyVcpu;

    fn memory(&self) -> &GuestMemoryMmap {
        each!(self, own => own.memory())
    }

    fn create_vcpu(&self, index: u32) -> Result<AnyVcpu, Error> {
        match self {
            Self::Kvm(vm) => vm.create_vcpu(index).map(AnyVcpu::Kvm),
            Self::Usermode(vm) => vm.create_vcpu(index).map(AnyVcpu::Usermode),
        }
    }

    fn count_events(&self) -> Box<dyn EventCounter> {
        each!(self, own => own.count_events())
    }

    fn exit_counts(&self) -> ExitCounts {
        each!(self, own => own.exit_counts())
    }

    fn processes(&self) -> Vec<u32> {
        each!(self, own => own.processes())
    }
}

impl IoEvents for AnyVm {
    fn register_ioevent(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Result<(), Error> {
        each!(self, own => own.register_ioevent(event, address, datamatch, sharing))
    }

    fn unregister_ioevent(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
    ) -> Result<(), Error> {
        each!(self, own => own.unregister_ioevent(event, address, datamatch))
    }

    fn register_coalesced(&self, address: u64, len: u32) -> Result<(), Error> {
        each!(self, own => own.register_coalesced(address, len))
    }
}

impl AssignedDevices for AnyVm {
    fn map_device_memory(&self, address: u64, memory: &DeviceMemory) -> Result<(), Error> {
        each!(self, own => own.map_device_memory(address, memory))
    }

    fn unmap_device_memory(&self, address: u64) -> Result<(), Error> {
        each!(self, own => own.unmap_device_memory(address))
    }

    fn add_vfio_file(&self, file: BorrowedFd<'_>) -> Result<(), Error> {
        each!(self, own => own.add_vfio_file(file))
    }

    fn remove_vfio_file(&self, file: BorrowedFd<'_>) -> Result<(), Error> {
        each!(self, own => own.remove_vfio_file(file))
    }

    fn forward_interrupt(
        &self,
        device: &Arc<File>,
        index: u32,
        gsi: Gsi,
    ) -> Result<Box<dyn ForwardedInterrupt>, Error> {
        each!(self, own => own.forward_interrupt(device, index, gsi))
    }
}

impl Irqs for AnyVm {
    fn register_irqfd(
        &self,
        event: &EventFd,
        gsi: Gsi,
        resample: Option<&EventFd>,
    ) -> Result<(), Error> {
        each!(self, own => own.register_irqfd(event, gsi, resample))
    }

    fn unregister_irqfd(&self, event: &EventFd, gsi: Gsi) -> Result<(), Error> {
        each!(self, own => own.unregister_irqfd(event, gsi))
    }

    fn irq_trigger(&self, irqfd: &EventFd) -> Result<Box<dyn IrqTrigger>, Error> {
        each!(self, own => own.irq_trigger(irqfd))
    }

    fn set_routing(&self, routes: &[Route]) -> Result<(), Error> {
        each!(self, own => own.set_routing(routes))
    }

    fn set_line(&self, gsi: Gsi, level: bool) -> Result<(), Error> {
        each!(self, own => own.set_line(gsi, level))
    }

    fn gic(&self) -> Option<Gic> {
        each!(self, own => own.gic())
    }

    fn forward_line(&self, gsi: Gsi) -> Result<Box<dyn ForwardedLine>, Error> {
        each!(self, own => own.forward_line(gsi))
    }

    fn unforward_line(&self, gsi: Gsi) -> Result<(), Error> {
        each!(self, own => own.unforward_line(gsi))
    }

    fn signal_msi(&self, msi: Msi) -> Result<bool, Error> {
        each!(self, own => own.signal_msi(msi))
    }
}

impl Vcpu for AnyVcpu {
    fn set_entry_point(&mut self, entry: EntryPoint) -> Result<(), Error> {
        each!(self, own => own.set_entry_point(entry))
    }

    fn set_interrupt_handler(&mut self, pc: u64) -> Result<(), Error> {
        each!(self, own => own.set_interrupt_handler(pc))
    }

    #[inline]
    fn run(&mut self, entry: VmEntry) -> Result<VmExit, Error> {
        each!(self, own => own.run(entry))
    }

    fn is_kicked(&self) -> bool {
        each!(self, own => own.is_kicked())
    }

    fn kick_handle(&self) -> Arc<dyn Kick> {
        each!(self, own => own.kick_handle())
    }
}
