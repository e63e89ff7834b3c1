//! The private memory of a vCPU thread: a slot with a [`PerCpu`] at its base and the signal stack above that.
//!
//! There is no thread-local storage. The slot is found by clearing the low bits of the stack pointer, which is always
//! inside the signal stack while stub code runs.

use core::mem::offset_of;

use crate::elf::entry::Context;
use crate::elf::interrupt::ResamplePoll;
use crate::layout::{
    CONTROL_BASE, Control, HaltFds, RunPage, SHARED_BASE, SLOT_BASE, SLOT_SIZE, SharedState,
    VcpuInterrupts,
};
use vmbell_core::addresses::PAGE;
use vmbell_core::lapic::Lapic;
use vmbell_core::sync::Ordering::Relaxed;
use vmbell_core::sync::{AtomicU32, AtomicU64};

/// A vCPU's private state in the stub, at the base of its slot. Only the vCPU's thread uses it.
#[repr(C)]
pub struct PerCpu {
    /// The frame of the trap that is being left.
    pub context: *mut Context,
    /// Signals that have arrived and were not taken yet, as bits of [`crate::elf::kick`]. The exit sequence checks them
    /// last.
    pub pending_signals: AtomicU32,
    /// Signals that arrived in direct code and wait for the end of that code, as the same bits.
    pub deferred_signals: AtomicU32,
    /// Which vCPU this is.
    pub index: AtomicU32,
    /// Not 0 if an interrupt waits for the guest to unmask.
    pub window: AtomicU32,
    /// Not 0 if the guest single-steps (TF) the instruction after its `sti`.
    pub stepping: AtomicU32,
    /// Address of the instruction after the guest's last `sti`, until it is known to have been executed; then 0.
    pub shadow: AtomicU64,
    /// The number of patches when an invalid opcode was last attributed to a jump that has since been undone.
    pub undone_patches: AtomicU32,
    /// The state that decides whether the vCPU polls for an interrupt after it has signalled a resamplefd.
    pub resample_poll: ResamplePoll,
    /// How often each site has trapped, by a hash of its address. Used to choose which sites to patch.
    pub site_traps: [AtomicU32; 256],
}

/// Offsets that the assembly code uses.
pub const CONTEXT: usize = offset_of!(PerCpu, context);
pub const PENDING_SIGNALS: usize = offset_of!(PerCpu, pending_signals);
/// Offset in the slot where the return frame is built: inside the signal stack, below any frame.
pub const RETURN_FRAME: u64 = 0x7f00;

const _: () = assert!(size_of::<PerCpu>() as u64 <= PAGE);

impl PerCpu {
    /// The address of a vCPU's slot.
    pub fn slot(index: u64) -> u64 {
        SLOT_BASE + index * SLOT_SIZE
    }

    /// This vCPU's run page.
    pub fn run(&self) -> &'static RunPage {
        let runs = &shared().runs;
        &runs[self.index.load(Relaxed) as usize % runs.len()]
    }

    /// This vCPU's local APIC.
    pub fn lapic(&self) -> &'static Lapic {
        let lapics = &shared().lapics;
        &lapics[self.index.load(Relaxed) as usize % lapics.len()]
    }

    /// The descriptors that wake this vCPU out of `hlt`.
    pub fn halt_fds(&self) -> &'static HaltFds {
        let all = &control().halt_fds;
        &all[self.index.load(Relaxed) as usize % all.len()]
    }

    /// This vCPU's interrupt state, apart from its local APIC.
    pub fn interrupts(&self) -> &'static VcpuInterrupts {
        &self.run().interrupts
    }
}

/// The sandbox's process id, stored by boot.
pub static OWN_PID: AtomicU32 = AtomicU32::new(0);

/// The sandbox's process id.
pub fn own_pid() -> u32 {
    OWN_PID.load(Relaxed)
}

/// The memory that the monitor writes and the sandbox reads.
#[inline(always)]
pub fn control() -> &'static Control {
    // SAFETY: mapped by boot before the first vCPU exists and never unmapped; from then on all fields are atomic or
    // constant.
    unsafe { &*(CONTROL_BASE as *const Control) }
}

/// The memory that both the monitor and the sandbox write.
#[inline(always)]
pub fn shared() -> &'static SharedState {
    // SAFETY: as for `control`; all fields are atomic.
    unsafe { &*(SHARED_BASE as *const SharedState) }
}
