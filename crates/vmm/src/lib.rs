//! Builds a guest: a program in memory, devices on buses, and the loop that answers exits.
//!
//! A [`Machine`] has three buses of devices, for ports, memory addresses and hypercall numbers, and any thread may use
//! it. A [`Pc`] is a machine with the devices that
//! an [`Image`] made for QEMU expects, and with several vCPUs, each on its own thread; a [`Virt`] is the same for
//! an [`Arm64Image`]. [`choose_backend`] chooses the best backend that the host has.
//!
//! ```
//! use std::sync::Arc;
//! use vmbell::bus::BusRange;
//! use vmbell_devices::DoorbellCounter;
//! use vmbell_guest::{PARAMETERS, Parameters, Results, programs};
//! use vmbell_hypervisor::{Capability, Hypervisor, Vcpu, Vm, VmConfig};
//! use vmbell_vmm::{Machine, Stop, choose_backend};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let hypervisor = choose_backend(&[Capability::Run])?.hypervisor;
//! let machine = Machine::new(hypervisor.create_vm(&VmConfig::default())?);
//! let doorbell = Arc::new(DoorbellCounter::default());
//! machine.pio.insert(BusRange::new(0x510, 4)?, doorbell.clone())?;
//!
//! let memory = machine.vm().memory();
//! let entry = programs::portio().load(memory, 0)?;
//! Parameters { count: 10, address: 0x510, ..Parameters::default() }.write(memory, PARAMETERS)?;
//! let mut vcpu = machine.vm().create_vcpu(0)?;
//! vcpu.set_entry_point(entry)?;
//! assert!(matches!(machine.runner(&mut *vcpu).run()?, Stop::Done(_)));
//! assert_eq!((Results::read(memory, PARAMETERS)?.rings, doorbell.rings()), (10, 10));
//! # Ok(())
//! # }
//! ```

mod backend;
mod board_devices;
mod error;
mod image;
mod machine;
mod off;
mod pc;
mod ram;
pub mod snapshot;
mod stop;
mod virt;

pub use backend::{Backend, ChosenBackend, choose_backend};
pub use error::{BoardError, MachineError};
pub use image::{
    Arm64Image, Boot, BootFile, ElfError, INFORMATION, Image, ImageError, ImageErrorKind, Module,
};
pub use machine::{Machine, Runner};
pub use pc::{
    AfterSave, AssignedEvent, OnEvent, OnTripleFault, Pc, PcConfig, PcModel, PcState,
    PlatformPlace, VCPUS_MAX,
};
pub use ram::{MEMORY_MAX, MEMORY_MIN, RamError};
pub use stop::{Deadline, Stop, done};
pub use virt::{Virt, VirtConfig};
