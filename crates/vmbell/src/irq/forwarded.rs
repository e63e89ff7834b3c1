//! Forwarded lines: the guest's own end of an interrupt ends it for the device too.
//!
//! Otherwise the host takes part in the end of a level-triggered interrupt: it takes the line down and tells the
//! device (an irqfd with a resamplefd), or the device model does. The owner of a forwarded line raises it and looks
//! whether the guest has ended the interrupt; nobody is told. The states are those of a hardware-mapped interrupt in a
//! GIC ([`Activity`]); how the guest ends it is the backend's matter.

use std::fmt;

pub use stub::ioapic::Activity;

/// The owner's side of a forwarded line, for any thread. Once the line is forwarded no longer, raising it does nothing.
pub trait ForwardedLine: Send + Sync + fmt::Debug {
    /// Raises the line. If an interrupt of the line is under way, the guest takes another one after its end; further
    /// calls until then change nothing.
    fn raise(&self);

    /// Whether the guest has ended all interrupts that were raised, or has itself ended. It looks, and waits for
    /// nothing.
    fn has_ended(&self) -> bool;
}
