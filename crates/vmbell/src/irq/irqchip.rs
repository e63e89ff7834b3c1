//! Which of a guest's interrupt controllers are below the VMM.

/// Who delivers interrupts, and what `hlt` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Irqchip {
    /// Nobody: no interrupts, and `hlt` leaves the guest.
    #[default]
    None,
    /// Local APICs below the VMM; the I/O APIC and the PIC, if any, are devices of the VMM.
    Split,
    /// Local APICs, I/O APIC, PIC and PIT below the VMM, as a PC has them.
    Full,
}
