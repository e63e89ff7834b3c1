//! The backend for hosts without `/dev/kvm`: guest code runs natively, in ring 3 of a sandbox process.
//!
//! For each guest, the *monitor* (the process that uses this crate) has one *sandbox* process with a thread for each
//! vCPU. Port I/O, stores to addresses without memory, `hlt` and MSR accesses fault. The [`stub`] in the sandbox
//! catches the signal and does what KVM does in the kernel: it looks up the write in the doorbell table and signals the
//! eventfd itself (a light exit), or it hands the exit over to the monitor through a page of shared memory (a heavy
//! exit). The stub is not trusted: any value that the sandbox can write is read once by the monitor, and checked before
//! use.
//!
//! With [`Irqchip::Split`](vmbell_hypervisor::Irqchip::Split) the stub emulates the local APICs, and `hlt` waits in the
//! sandbox for an interrupt. [`Irqchip::Full`](vmbell_hypervisor::Irqchip::Full) adds an I/O APIC in the monitor, but
//! no PIC and no timer.
//!
//! [`UsermodeVcpu::run`](vmbell_hypervisor::Vcpu::run) runs on its caller's thread, one thread for each vCPU. The
//! backend starts further threads: one that starts all sandboxes, one that waits for the ends of all sandboxes, and one
//! for each guest with irqfds, which waits for its irqfds.
//!
//! ```
//! use vmbell_hypervisor::{EntryPoint, Hypervisor, Vcpu, Vm, VmConfig, VmEntry, VmExit};
//! use vmbell::memory::{Bytes, GuestAddress};
//! use vmbell_usermode::Usermode;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = VmConfig::default();
//! let vm = Usermode.create_vm(&config)?;
//! // in al, 0x60; out 0x61, al
//! let start = GuestAddress(config.ram_base);
//! vm.memory().write_slice(&[0xe4, 0x60, 0xe6, 0x61], start)?;
//! let mut vcpu = vm.create_vcpu(0)?;
//! vcpu.set_entry_point(EntryPoint::Program {
//!     pc: start.0,
//!     sp: start.0 + config.ram_size,
//!     arguments: [0, 0],
//! })?;
//! let read = vcpu.run(VmEntry::Resume)?;
//! assert_eq!(read, VmExit::PioIn { port: 0x60, len: 1 });
//! let write = vcpu.run(VmEntry::Data(42))?;
//! assert_eq!(write, VmExit::PioOut { port: 0x61, len: 1, data: 42 });
//! # Ok(())
//! # }
//! ```
// The backend is for x86-64 only.
#![cfg(target_arch = "x86_64")]

mod backend;
mod capability;
mod descriptors;
mod doorbells;
mod error;
mod filter;
mod guest;
mod halt_fds;
mod hypercall_page;
mod irqchip;
mod irqfd_watcher;
mod launch;
mod listener;
mod mapping;
mod one_cpu;
mod patch;
mod payloads;
mod process;
mod progress;
mod ram;
mod revocation;
mod sandbox;
mod stop;
mod thread;
mod vcpu;
mod vm;
mod wait;

pub use backend::Usermode;
pub use error::UsermodeError;
pub use seccompiler::BackendError;
pub use vcpu::UsermodeVcpu;
pub use vm::UsermodeVm;
