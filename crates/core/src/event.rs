//! Counts of a guest's events, named after Linux's KVM tracepoints (`include/trace/events/kvm.h`,
//! `arch/x86/kvm/trace.h`). The thread on which an event happens counts it.
//!
//! ```
//! use vmbell_core::event::{Event, EventCounts};
//!
//! let counts = EventCounts::default();
//! counts.count(Event::Exit);
//! assert_eq!(counts.get(Event::Exit), 1);
//! assert_eq!(Event::Exit.name(), "kvm:kvm_exit");
//! ```

use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Event {
    /// The guest is entered.
    Entry,
    /// The guest is left, for any reason.
    Exit,
    /// An exit continues to the VMM.
    UserspaceExit,
    /// `in` or `out`.
    Pio,
    /// A load or store of unmapped memory.
    Mmio,
    /// `rdmsr` or `wrmsr`.
    Msr,
    /// A call through the hypercall page.
    Hypercall,
    /// A register of the local APIC is read or written.
    Apic,
    /// ICR or the self-IPI register is written.
    ApicIpi,
    /// A local APIC accepts an interrupt request.
    ApicAcceptIrq,
    /// An interrupt is injected: the guest enters its handler.
    InjVirq,
    /// A vector leaves service.
    Eoi,
    /// A vector leaves service because the guest has cleared its PV EOI bit.
    PvEoi,
    /// A GSI is driven.
    SetIrq,
    /// A pin of the I/O APIC is driven.
    IoapicSetIrq,
    /// A message-signalled interrupt is sent.
    MsiSetIrq,
    /// The EOI of a pin's interrupt reaches the I/O APIC.
    AckIrq,
}

/// How many kinds of events there are.
pub const EVENTS: usize = 17;

impl Event {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; EVENTS] = [
        Self::Entry,
        Self::Exit,
        Self::UserspaceExit,
        Self::Pio,
        Self::Mmio,
        Self::Msr,
        Self::Hypercall,
        Self::Apic,
        Self::ApicIpi,
        Self::ApicAcceptIrq,
        Self::InjVirq,
        Self::Eoi,
        Self::PvEoi,
        Self::SetIrq,
        Self::IoapicSetIrq,
        Self::MsiSetIrq,
        Self::AckIrq,
    ];

    /// The tracepoint's name, with its subsystem: `kvm:kvm_entry`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Entry => "kvm:kvm_entry",
            Self::Exit => "kvm:kvm_exit",
            Self::UserspaceExit => "kvm:kvm_userspace_exit",
            Self::Pio => "kvm:kvm_pio",
            Self::Mmio => "kvm:kvm_mmio",
            Self::Msr => "kvm:kvm_msr",
            Self::Hypercall => "kvm:kvm_hypercall",
            Self::Apic => "kvm:kvm_apic",
            Self::ApicIpi => "kvm:kvm_apic_ipi",
            Self::ApicAcceptIrq => "kvm:kvm_apic_accept_irq",
            Self::InjVirq => "kvm:kvm_inj_virq",
            Self::Eoi => "kvm:kvm_eoi",
            Self::PvEoi => "kvm:kvm_pv_eoi",
            Self::SetIrq => "kvm:kvm_set_irq",
            Self::IoapicSetIrq => "kvm:kvm_ioapic_set_irq",
            Self::MsiSetIrq => "kvm:kvm_msi_set_irq",
            Self::AckIrq => "kvm:kvm_ack_irq",
        }
    }
}

/// How often each kind of event has happened.
#[repr(C)]
#[derive(Debug, Default)]
pub struct EventCounts([AtomicU64; EVENTS]);

impl EventCounts {
    /// Counts one event. Any thread may call it.
    #[inline(always)]
    pub fn count(&self, event: Event) {
        self.of(event).fetch_add(1, Relaxed);
    }

    /// Subtracts an event that was counted but did not happen after all.
    #[inline(always)]
    pub fn take_back(&self, event: Event) {
        self.of(event).fetch_sub(1, Relaxed);
    }

    /// How often `event` has happened.
    pub fn get(&self, event: Event) -> u64 {
        self.of(event).load(Relaxed)
    }

    #[inline(always)]
    fn of(&self, event: Event) -> &AtomicU64 {
        &self.0[event as usize]
    }
}
