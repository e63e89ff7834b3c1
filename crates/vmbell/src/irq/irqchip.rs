//! Which of a guest's interrupt controllers are below the VMM.

/// Which interrupt controllers are below the VMM; this also decides what `hlt` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Irqchip {
    /// None: there are no interrupts, and `hlt` leaves the guest.
    #[default]
    None,
    /// Local APICs below the VMM; the I/O APIC and the PIC, if any, are devices of the VMM. Not on arm64.
    Split,
    /// Local APICs, I/O APIC, PIC and PIT below the VMM, as in a PC. On the usermode backend only local APICs
    /// and I/O APIC. On arm64 a GICv3 with its ITS, or a GICv2, whichever the host has.
    Full,
}
