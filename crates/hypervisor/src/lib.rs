//! The traits that a backend implements, and the exits for which a guest leaves to the VMM.
//!
//! A [`Hypervisor`] makes a [`Vm`], and a [`Vm`] makes [`Vcpu`]s. Each vCPU runs on the thread that calls
//! [`Vcpu::run`]. A property in which backends differ is a [`Capability`], which a caller queries once.
//!
//! ```no_run
//! use vmbell_hypervisor::kvm::Kvm;
//! use vmbell_hypervisor::{EntryPoint, Error, Hypervisor, Vcpu, Vm, VmConfig, VmEntry, VmExit};
//!
//! /// The first exit of a guest whose code is at `pc`.
//! fn first_exit(pc: u64) -> Result<VmExit, Error> {
//!     let vm = Kvm::open()?.create_vm(&VmConfig::default())?;
//!     let mut vcpu = vm.create_vcpu(0)?;
//!     vcpu.set_entry_point(EntryPoint::Program { pc, sp: pc, arguments: [0; 2] })?;
//!     vcpu.run(VmEntry::Resume)
//! }
//! ```

mod capability;
mod config;
mod cpu_features;
mod device_memory;
mod error;
mod exit;
mod irqs;
mod registration;
mod stage;
mod state;
mod vcpu;
mod vm;

pub mod aarch64;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod kvm;
pub mod measure;
#[cfg(target_arch = "x86_64")]
pub mod x86_64;

pub use capability::{Capability, Support};
pub use config::{Containment, PatchMode, SpinPolicy, VmConfig};
pub use cpu_features::{CpuFeatures, CpuidRegister};
pub use device_memory::{AssignedDevices, DeviceMemory, shared_memory};
pub use error::{DeviceMemoryRule, Error, chain};
pub use exit::{Buses, Fault, VmEntry, VmExit};
pub use irqs::{ForwardedInterrupt, ForwardedState, Irqs};
pub use registration::{Doorbell, IoEvents, IrqTrigger, Irqfd, Payload, RemoveDoorbell};
pub use stage::{CreatedVcpus, Stage};
pub use state::{VcpuState, VmState};
pub use vcpu::{EntryPoint, Kick, Vcpu, VcpuSnapshot};
pub use vm::{Hypervisor, IRQ_ARCH, Vm};
pub use vmbell::irq::Irqchip;
