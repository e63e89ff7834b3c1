//! What a vCPU thread owns: a slot with this at its base and its signal stack above.
//!
//! There is no thread-local storage: the slot is found by clearing the low bits of the stack
//! pointer, which is always inside the signal stack while stub code runs.

use core::mem::offset_of;

use crate::elf::context::Context;
use crate::elf::interrupt::Linger;
use crate::lapic::Lapic;
use crate::layout::{
    CONTROL_BASE, Control, HaltSet, Interrupts, PAGE, RunPage, SHARED_BASE, SLOT_BASE, SLOT_SIZE,
    Shared,
};
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, AtomicU64};

/// The base of a vCPU's slot.
#[repr(C)]
pub struct PerCpu {
    /// The frame of the trap that is being left.
    pub context: *mut Context,
    /// Signals that arrived and were not taken yet, as bits of [`crate::elf::kick`]; the exit sequence
    /// looks at it last.
    pub noted: AtomicU32,
    /// Those that arrived in direct code and wait for its end.
    pub deferred: AtomicU32,
    /// Which vCPU this is.
    pub index: AtomicU32,
    /// Not 0: an interrupt waits for the guest to unmask.
    pub window: AtomicU32,
    /// Not 0: the guest executes one instruction, the one behind its `sti`.
    pub stepping: AtomicU32,
    /// The instruction behind the guest's last `sti`, until it is known to be past; 0 is none.
    pub shadow: AtomicU64,
    /// Whether it waits for devices that it has told of an EOI.
    pub linger: Linger,
    /// Traps by site, hashed, for the choice of sites to patch.
    pub heat: [AtomicU32; 256],
}

/// Offsets for assembly.
pub const CONTEXT: usize = offset_of!(PerCpu, context);
pub const NOTED: usize = offset_of!(PerCpu, noted);
/// Where in the slot the final return frame is built: inside the signal stack, below any frame.
pub const RETURN_FRAME: u64 = 0x7f00;

const _: () = assert!(size_of::<PerCpu>() as u64 <= PAGE);

impl PerCpu {
    /// The slot of a vCPU.
    pub fn slot(index: u64) -> u64 {
        SLOT_BASE + index * SLOT_SIZE
    }

    /// The part of the run page that this vCPU hands over through.
    pub fn run(&self) -> &'static RunPage {
        let runs = &shared().runs;
        &runs[self.index.load(Relaxed) as usize % runs.len()]
    }

    /// This vCPU's local APIC.
    pub fn lapic(&self) -> &'static Lapic {
        let lapics = &shared().lapics;
        &lapics[self.index.load(Relaxed) as usize % lapics.len()]
    }

    /// The descriptors that wake it out of `hlt`, if it has any.
    pub fn halt_set(&self) -> &'static HaltSet {
        let sets = &control().halt_sets;
        &sets[self.index.load(Relaxed) as usize % sets.len()]
    }

    /// The rest of its interrupts.
    pub fn interrupts(&self) -> &'static Interrupts {
        &self.run().interrupts
    }
}

/// This process's number, which boot finds out.
pub static OWN_PROCESS: AtomicU32 = AtomicU32::new(0);

/// This process's number.
pub fn own_process() -> u32 {
    OWN_PROCESS.load(Relaxed)
}

/// What the monitor says.
#[inline(always)]
pub fn control() -> &'static Control {
    // SAFETY: mapped by boot before the first vCPU exists and never unmapped; all fields are atomic
    // or constant from then on.
    unsafe { &*(CONTROL_BASE as *const Control) }
}

/// What both sides write.
#[inline(always)]
pub fn shared() -> &'static Shared {
    // SAFETY: as for `control`; all fields are atomic.
    unsafe { &*(SHARED_BASE as *const Shared) }
}
