//! The local APIC's registers, and their places in the page and among the MSRs (SDM volume 3, "Local APIC
//! Register Address Map" and "x2APIC Register Address Space").

/// Guest-physical address of the page of an xAPIC's registers.
pub const MMIO_BASE: u64 = 0xfee0_0000;
/// Size of that page in bytes.
pub const MMIO_SIZE: u64 = 0x1000;
/// The APIC base register, which says in which mode the APIC is.
pub const MSR_APIC_BASE: u32 = 0x1b;
/// The first MSR of an x2APIC.
pub const MSR_BASE: u32 = 0x800;
/// The MSR after the last MSR of an x2APIC.
pub const MSR_END: u32 = 0x900;

/// APIC base register: this is the bootstrap processor.
pub(super) const BASE_BSP: u32 = 1 << 8;
/// APIC base register: x2APIC mode.
pub(super) const BASE_X2APIC: u32 = 1 << 10;
/// APIC base register: the APIC is on (global enable).
pub(super) const BASE_ENABLED: u32 = 1 << 11;

/// SVR after a reset: disabled.
pub(super) const SVR_RESET: u32 = 0xff;
/// SVR: enabled by software.
pub(super) const SVR_ENABLED: u32 = 1 << 8;
/// Writable bits of SVR: vector, enabled, focus checking.
pub(super) const SVR_WRITABLE: u32 = 0x3ff;
/// DFR: the model of logical destinations, its only writable bits; the others read as 1.
pub(super) const DFR_MODEL: u32 = 0xf000_0000;

/// ICR: the destination is logical.
pub(super) const ICR_LOGICAL: u32 = 1 << 11;
/// ICR: delivery status, send pending; never set here.
pub(super) const ICR_SEND_PENDING: u32 = 1 << 12;
/// ICR: reserved bits of its low half.
pub(super) const ICR_RESERVED: u32 = 0xfff3_2000;

/// ESR: send illegal vector, below 16.
pub(super) const ESR_SEND_ILLEGAL_VECTOR: u32 = 1 << 5;
/// ESR: receive illegal vector, below 16.
pub(super) const ESR_RECEIVE_ILLEGAL_VECTOR: u32 = 1 << 6;
/// ESR: illegal register address.
pub(super) const ESR_ILLEGAL_REGISTER: u32 = 1 << 7;

/// The version register: an integrated APIC; the field Max LVT Entry is 0, as there is no local vector table.
pub(super) const VERSION: u32 = 0x14;

/// A register, in the page or as an MSR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Register {
    /// APIC ID.
    Id,
    /// Version.
    Version,
    /// Task priority.
    Tpr,
    /// Arbitration priority, of an xAPIC only.
    Apr,
    /// Processor priority.
    Ppr,
    /// End of interrupt.
    Eoi,
    /// Logical destination.
    Ldr,
    /// Destination format, of an xAPIC only.
    Dfr,
    /// Spurious-interrupt vector, and the software enable bit.
    Svr,
    /// In service, 32 vectors each: 0 to 7.
    Isr(u8),
    /// Trigger modes, 32 vectors each: 0 to 7.
    Tmr(u8),
    /// Interrupt requests, 32 vectors each: 0 to 7.
    Irr(u8),
    /// Error status.
    Esr,
    /// Interrupt command; the whole of it in an x2APIC, its low half in an xAPIC.
    Icr,
    /// The high half of the command, of an xAPIC only.
    IcrHigh,
    /// Self-IPI, of an x2APIC only.
    SelfIpi,
}

impl Register {
    /// The register with bits 11:4 of the offset in the page, or bits 7:0 of the MSR, as its index.
    pub fn from_index(index: u8) -> Option<Self> {
        Some(match index {
            0x02 => Self::Id,
            0x03 => Self::Version,
            0x08 => Self::Tpr,
            0x09 => Self::Apr,
            0x0a => Self::Ppr,
            0x0b => Self::Eoi,
            0x0d => Self::Ldr,
            0x0e => Self::Dfr,
            0x0f => Self::Svr,
            0x10..=0x17 => Self::Isr(index & 7),
            0x18..=0x1f => Self::Tmr(index & 7),
            0x20..=0x27 => Self::Irr(index & 7),
            0x28 => Self::Esr,
            0x30 => Self::Icr,
            0x31 => Self::IcrHigh,
            0x3f => Self::SelfIpi,
            _ => return None,
        })
    }
}
