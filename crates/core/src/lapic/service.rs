//! The life of an interrupt, from its request to its EOI: IRR, priorities, ISR (SDM volume 3, "Handling Interrupts").

use super::state::{FIRST_VECTOR, Lapic};
use crate::sync::Ordering::Relaxed;

/// ESR: receive illegal vector: a vector below 16.
const ESR_RECEIVE_ILLEGAL_VECTOR: u32 = 1 << 6;

/// The result of an interrupt request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Raise {
    /// The vector is pending now; the vCPU must be notified.
    Accepted,
    /// The vector was already pending: the guest takes one interrupt for both requests.
    Coalesced,
    /// The vector is below [`FIRST_VECTOR`], or the APIC is disabled.
    Refused,
}

/// An EOI: a vector has left service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eoi {
    /// The vector that left service.
    pub vector: u8,
    /// Whether the vector was raised as level: if so, the EOI must reach the I/O APIC.
    pub level: bool,
}

impl Lapic {
    /// Requests a vector, from any thread.
    pub fn raise(&self, vector: u8, level: bool) -> Raise {
        if vector < FIRST_VECTOR {
            self.pending_errors
                .fetch_or(ESR_RECEIVE_ILLEGAL_VECTOR, Relaxed);
            return Raise::Refused;
        }
        if !self.is_enabled() {
            return Raise::Refused;
        }
        // This comes before IRR, so that a thread that sees the request also sees its trigger mode.
        if level {
            self.tmr.insert(vector);
        } else if self.tmr.contains(vector) {
            self.tmr.remove(vector);
        }
        if self.irr.insert(vector) {
            Raise::Accepted
        } else {
            Raise::Coalesced
        }
    }

    /// The processor priority: a request is delivered only if its class (bits 7:4) is higher.
    pub fn ppr(&self) -> u8 {
        let task = self.tpr();
        let service = self.in_service().unwrap_or(0);
        if task & 0xf0 >= service & 0xf0 {
            task
        } else {
            service & 0xf0
        }
    }

    /// The task priority.
    pub fn tpr(&self) -> u8 {
        (self.tpr.load(Relaxed) & 0xff) as u8
    }

    /// The highest-priority vector in service, which the next EOI ends.
    pub fn in_service(&self) -> Option<u8> {
        self.isr.highest()
    }

    /// Whether a vector is in service.
    pub fn is_in_service(&self, vector: u8) -> bool {
        self.isr.contains(vector)
    }

    /// The pending vector that interrupts the vCPU as soon as the guest does not mask interrupts.
    pub fn next_interrupt(&self) -> Option<u8> {
        let highest = self.irr.highest()?;
        (highest & 0xf0 > self.ppr()).then_some(highest)
    }

    /// Starts the handler of a pending vector: moves it from IRR to ISR. Returns false if it was not pending.
    pub fn start_service(&self, vector: u8) -> bool {
        if !self.irr.remove(vector) {
            return false;
        }
        if self.isr.insert(vector) {
            self.newest_in_service.store(u32::from(vector) + 1, Relaxed);
        }
        true
    }

    /// Does an EOI: takes the highest vector out of service. `None` if no vector is in service.
    pub fn eoi(&self) -> Option<Eoi> {
        let vector = self.isr.highest()?;
        self.isr.remove(vector);
        self.newest_in_service.store(0, Relaxed);
        let level = self.tmr.contains(vector);
        Some(Eoi { vector, level })
    }

    /// The vector that came into service last, unless a vector has left service since then (`highest_isr_cache` of
    /// Linux `arch/x86/kvm/lapic.c`). It is the only vector whose EOI the guest may skip.
    pub fn newest_in_service(&self) -> Option<u8> {
        let code = self.newest_in_service.load(Relaxed);
        code.checked_sub(1).map(|vector| (vector & 0xff) as u8)
    }
}
