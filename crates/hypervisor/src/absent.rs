//! Stand-ins for the backends on an architecture that has none: they can do nothing, and say why.
//!
//! The KVM backend is for x86-64 and arm64, the usermode engine for x86-64. On another architecture these types take
//! their place, so that the library compiles and a caller learns that each [`Capability`] is missing.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use vm_memory::GuestMemoryMmap;
use vmm_sys_util::eventfd::EventFd;

use super::{
    AssignedDevices, BareExit, BareLoop, Capability, DeviceMemory, EntryPoint, Error, EventCounter,
    ExitCounts, ForwardedInterrupt, Hypervisor, IoEvents, IrqTrigger, Irqs, Kick, Support, Vcpu,
    Vm, VmConfig, VmEntry, VmExit,
};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::irq::{ForwardedLine, Gsi, Msi, Route};

/// Stands in for the KVM backend.
#[derive(Clone, Debug)]
pub struct Kvm(());

impl Kvm {
    /// Always fails with [`Error::Unsupported`].
    pub fn open() -> Result<Self, Error> {
        Err(unsupported("kvm", Capability::Run))
    }

    /// The reason of an `open` error in a few words.
    pub fn everyday_reason(_: &Error) -> Option<&'static str> {
        Some("the kvm backend is for x86-64 and arm64")
    }
}

/// Stands in for the usermode backend.
#[derive(Clone, Copy, Debug)]
pub struct Usermode;

/// Stands in for guests and vCPUs. It has no value.
#[derive(Debug)]
pub enum Nothing {}

fn reason(backend: &str) -> String {
    let here = std::env::consts::ARCH;
    let built = if backend == "kvm" {
        "x86-64 and arm64"
    } else {
        "x86-64"
    };
    format!("the {backend} backend is for {built}, and this is {here}")
}

fn unsupported(backend: &'static str, capability: Capability) -> Error {
    Error::Unsupported {
        backend,
        capability,
        reason: reason(backend),
    }
}

macro_rules! absent {
    ($backend:ident, $name:literal) => {
        impl Hypervisor for $backend {
            type Vm = Nothing;

            fn name(&self) -> &'static str {
                $name
            }

            fn support(&self, _: Capability) -> Support {
                Support::No(reason($name))
            }

            fn create_vm(&self, _: &VmConfig) -> Result<Nothing, Error> {
                Err(unsupported($name, Capability::Run))
            }

            fn bare_loop(&self, _: BareExit) -> Result<Box<dyn BareLoop>, Error> {
                Err(unsupported($name, Capability::BareLoop))
            }
        }
    };
}

absent!(Kvm, "kvm");
absent!(Usermode, "usermode");

impl IoEvents for Nothing {
    fn register_ioevent(
        &self,
        _: &EventFd,
        _: IoEventAddress,
        _: Datamatch,
        _: Sharing,
    ) -> Result<(), Error> {
        match *self {}
    }

    fn unregister_ioevent(
        &self,
        _: &EventFd,
        _: IoEventAddress,
        _: Datamatch,
    ) -> Result<(), Error> {
        match *self {}
    }

    fn register_coalesced(&self, _: u64, _: u32) -> Result<(), Error> {
        match *self {}
    }
}

impl Irqs for Nothing {
    fn register_irqfd(&self, _: &EventFd, _: Gsi, _: Option<&EventFd>) -> Result<(), Error> {
        match *self {}
    }

    fn unregister_irqfd(&self, _: &EventFd, _: Gsi) -> Result<(), Error> {
        match *self {}
    }

    fn irq_trigger(&self, _: &EventFd) -> Result<Box<dyn IrqTrigger>, Error> {
        match *self {}
    }

    fn set_routing(&self, _: &[Route]) -> Result<(), Error> {
        match *self {}
    }

    fn set_line(&self, _: Gsi, _: bool) -> Result<(), Error> {
        match *self {}
    }

    fn forward_line(&self, _: Gsi) -> Result<Box<dyn ForwardedLine>, Error> {
        match *self {}
    }

    fn unforward_line(&self, _: Gsi) -> Result<(), Error> {
        match *self {}
    }

    fn signal_msi(&self, _: Msi) -> Result<bool, Error> {
        match *self {}
    }
}

impl AssignedDevices for Nothing {
    fn map_device_memory(&self, _: u64, _: &DeviceMemory) -> Result<(), Error> {
        match *self {}
    }

    fn unmap_device_memory(&self, _: u64) -> Result<(), Error> {
        match *self {}
    }

    fn add_vfio_file(&self, _: BorrowedFd<'_>) -> Result<(), Error> {
        match *self {}
    }

    fn remove_vfio_file(&self, _: BorrowedFd<'_>) -> Result<(), Error> {
        match *self {}
    }

    fn forward_interrupt(
        &self,
        _: &Arc<File>,
        _: u32,
        _: Gsi,
    ) -> Result<Box<dyn ForwardedInterrupt>, Error> {
        match *self {}
    }
}

impl Vm for Nothing {
    type Vcpu = Self;

    fn memory(&self) -> &GuestMemoryMmap {
        match *self {}
    }

    fn create_vcpu(&self, _: u32) -> Result<Self, Error> {
        match *self {}
    }

    fn count_events(&self) -> Box<dyn EventCounter> {
        match *self {}
    }

    fn exit_counts(&self) -> ExitCounts {
        match *self {}
    }

    fn processes(&self) -> Vec<u32> {
        match *self {}
    }
}

impl Vcpu for Nothing {
    fn set_entry_point(&mut self, _: EntryPoint) -> Result<(), Error> {
        match *self {}
    }

    fn set_interrupt_handler(&mut self, _: u64) -> Result<(), Error> {
        match *self {}
    }

    fn run(&mut self, _: VmEntry) -> Result<VmExit, Error> {
        match *self {}
    }

    fn is_kicked(&self) -> bool {
        match *self {}
    }

    fn kick_handle(&self) -> Arc<dyn Kick> {
        match *self {}
    }
}
