//! A virtual CPU of a backend, its entry points, and the kick with which any thread makes it leave the guest.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::error::Error;
use super::exit::{Buses, VmEntry, VmExit};
use super::state::VcpuState;

/// Saves and restores a virtual CPU. Every [`Vcpu`] implements it.
pub trait VcpuSnapshot {
    /// Saves the state of the vCPU. The last exit must have been [`VmExit::Kicked`], so that no answer is missing, and
    /// no vCPU may run meanwhile. Needs [`Capability::Snapshots`](super::Capability::Snapshots).
    ///
    /// Fails with [`Error::Unsaved`] if the last exit still needs an answer, or the guest uses virtualization itself.
    fn save(&self) -> Result<VcpuState, Error>;

    /// Restores a saved state instead of [setting an entry point](Vcpu::set_entry_point). Fails with
    /// [`Error::Running`] once the vCPU has run, and with [`Error::Unrestored`] if the CPU or the guest's settings
    /// differ from where the state was saved.
    fn restore(&mut self, state: &VcpuState) -> Result<(), Error>;
}

/// A virtual CPU, owned by the one thread that runs it.
pub trait Vcpu: VcpuSnapshot + fmt::Debug + Send {
    /// Sets where the first [`run`](Self::run) starts. Fails with [`Error::Running`] once the vCPU has run. The
    /// exceptions are [`EntryPoint::RealMode`] and [`EntryPoint::Secondary`], which reset a vCPU unless it began as
    /// [`EntryPoint::Program`].
    fn set_entry_point(&mut self, entry: EntryPoint) -> Result<(), Error>;

    /// Sets the address at which this vCPU handles all external interrupts. Fails with [`Error::Running`] once
    /// the vCPU has run.
    ///
    /// What the handler finds and how it returns depends on the architecture: see the module of that name in this
    /// crate. If an x86-64 guest enables interrupts without a handler, it gets no interrupt on the usermode backend,
    /// and its first interrupt on KVM is a [`VmExit::Fault`].
    fn set_interrupt_handler(&mut self, pc: u64) -> Result<(), Error>;

    /// Enters the guest and returns when the guest leaves it.
    fn run(&mut self, entry: VmEntry) -> Result<VmExit, Error>;

    /// Enters the guest, answers its exits from `buses`, and returns the first exit that no device answers.
    ///
    /// Before each entry it does the work that devices have left in the backlog, piece by piece, and checks for a kick
    /// between the pieces. So a guest that always makes more work only keeps its own vCPU out of the guest, and a kick
    /// waits for at most one piece. The rest of the backlog waits for the next entry.
    ///
    /// A backend does not implement this method. It is compiled for each backend, so it calls `run` directly, not
    /// through the trait object, and an exit costs no more than with a type parameter.
    fn serve(&mut self, mut entry: VmEntry, buses: &mut Buses) -> Result<VmExit, Error> {
        loop {
            while !buses.backlog.is_empty() && !self.is_kicked() {
                buses.backlog.serve();
            }
            let exit = self.run(entry)?;
            match buses.answer(&exit) {
                Some(answer) => entry = answer,
                None => return Ok(exit),
            }
        }
    }

    /// Returns whether a kick waits for the next [`run`](Self::run), which then leaves the guest at once. A thread
    /// calls this if it has other work to do before it enters the guest.
    fn is_kicked(&self) -> bool;

    /// Returns a handle with which any thread can kick this vCPU.
    fn kick_handle(&self) -> Arc<dyn Kick>;

    /// Returns the descriptor of KVM's vCPU, for calls that this crate does not have, such as the bare loop of the
    /// bench. Returns `None` on a backend without such a descriptor
    /// ([`Capability::BareLoop`](super::Capability::BareLoop)).
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Makes a vCPU leave the guest with [`VmExit::Kicked`]. The threads that may kick the vCPU share the handle, and
/// the thread that runs the vCPU answers. The handle may outlive the vCPU.
pub trait Kick: Send + Sync + fmt::Debug {
    /// Asks the vCPU to leave the guest. If it is outside the guest, it answers at its next entry.
    fn kick(&self);
}

/// Where and how a vCPU starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryPoint {
    /// 64-bit code with the low 4 GiB identity-mapped: the state in which vmbell's guest programs start.
    Program {
        /// First instruction.
        pc: u64,
        /// Stack pointer.
        sp: u64,
        /// Two arguments, in the registers that the C ABI uses for them.
        arguments: [u64; 2],
    },
    /// The state in which loaders leave the processor of a PC: 32-bit code in flat segments, no paging. Needs
    /// [`Capability::Kernels`](super::Capability::Kernels).
    Protected {
        /// First instruction.
        pc: u32,
        /// Multiboot's magic number (Multiboot 0.6.96, 3.2).
        eax: u32,
        /// Guest-physical address of the boot information, in the format of Multiboot or of PVH.
        ebx: u32,
        /// Guest-physical address of Linux's boot parameters (Linux `Documentation/arch/x86/boot.rst`).
        esi: u32,
    },
    /// Real mode at `segment:offset`, in the state of a processor after its reset. Needs
    /// [`Capability::Kernels`](super::Capability::Kernels).
    RealMode {
        /// The code segment: its base address divided by 16.
        segment: u16,
        /// Offset of the first instruction in the segment.
        offset: u16,
    },
    /// The state in which loaders leave the processor of an arm64 machine: EL1 with the MMU off (Linux
    /// `Documentation/arch/arm64/booting.rst`). Needs [`Capability::Kernels`](super::Capability::Kernels).
    MmuOff {
        /// First instruction.
        pc: u64,
        /// Guest-physical address of the device tree, in `x0`.
        tree: u64,
    },
    /// Waits until another vCPU starts it: on x86-64 by a SIPI, which needs
    /// [`Capability::Kernels`](super::Capability::Kernels) and an [`Irqchip`](super::Irqchip); on arm64 by CPU_ON of
    /// PSCI, after which it begins with the MMU off.
    Secondary,
}

#[cfg(test)]
#[path = "vcpu_test.rs"]
mod tests;
