//! The local APIC's registers: their offsets in the page, their MSR numbers, and the guest's reads and writes (SDM
//! volume 3, "Local APIC Register Address Map" and "x2APIC Register Address Space").
//!
//! The registers are MSRs in x2APIC mode, and in the page in xAPIC mode; the APIC base register switches between the
//! modes. The thread that runs the vCPU calls this when the guest's instruction traps.

use super::state::{BASE_ENABLED, BASE_X2APIC, DFR_MODEL, FIRST_VECTOR};
use super::{Destination, Eoi, Lapic, Message, Mode};
use crate::sync::Ordering::Relaxed;

/// The effect of a write apart from the changed register. After any write, call [`Lapic::next_interrupt`] again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Effect {
    /// Nothing.
    None,
    /// A vector has left service.
    Eoi(Eoi),
    /// This IPI is to be delivered.
    Ipi(Message),
    /// #GP: the bits are reserved, the register is read-only, or the delivery mode is not emulated.
    Fault,
}

impl Lapic {
    /// Handles `rdmsr` of an x2APIC register; `None` means #GP.
    pub fn read_msr(&self, index: u32) -> Option<u64> {
        if !self.is_x2apic() {
            return None;
        }
        match Register::from_index(msr_register(index)?)? {
            // Write-only, or not available in this mode.
            Register::Eoi | Register::SelfIpi => None,
            Register::Apr | Register::Dfr | Register::IcrHigh => None,
            Register::Icr => {
                let high = u64::from(self.icr_high.load(Relaxed));
                Some(high << 32 | u64::from(self.icr_low.load(Relaxed)))
            }
            register => Some(self.read(register).into()),
        }
    }

    /// Handles `wrmsr` of an x2APIC register.
    pub fn write_msr(&self, index: u32, value: u64) -> Effect {
        let register = msr_register(index).and_then(Register::from_index);
        let (Some(register), true) = (register, self.is_x2apic()) else {
            return Effect::Fault;
        };
        let (low, high) = ((value & 0xffff_ffff) as u32, (value >> 32) as u32);
        match register {
            Register::Icr if low & ICR_RESERVED == 0 => {
                self.icr_high.store(high, Relaxed);
                self.write(Register::Icr, low)
            }
            Register::Eoi | Register::Esr if value != 0 => Effect::Fault,
            Register::Tpr | Register::SelfIpi if value > 0xff => Effect::Fault,
            Register::Svr if value & !u64::from(SVR_WRITABLE) != 0 => Effect::Fault,
            Register::Tpr | Register::Eoi | Register::Svr | Register::Esr | Register::SelfIpi => {
                self.write(register, low)
            }
            _ => Effect::Fault,
        }
    }

    /// Handles a load from the page: returns the loaded bytes of one register. A register that does not exist reads as
    /// 0.
    pub fn read_mmio(&self, offset: u64, len: u8) -> u32 {
        let (index, byte) = mmio_register(offset);
        let value = match Register::from_index(index) {
            Some(Register::SelfIpi) | None => {
                self.pending_errors.fetch_or(ESR_ILLEGAL_REGISTER, Relaxed);
                0
            }
            Some(register) => self.read(register),
        };
        match (byte + u32::from(len) <= 4, len) {
            (true, 1) => value >> (8 * byte) & 0xff,
            (true, 2) => value >> (8 * byte) & 0xffff,
            (true, 4) => value,
            _ => 0,
        }
    }

    /// Handles a store to the page. Only aligned 32-bit stores have an effect (SDM: "undefined"; Linux ignores other
    /// stores).
    pub fn write_mmio(&self, offset: u64, len: u8, value: u32) -> Effect {
        let (index, byte) = mmio_register(offset);
        if byte != 0 || len != 4 {
            return Effect::None;
        }
        match Register::from_index(index) {
            Some(Register::SelfIpi) | None => {
                self.pending_errors.fetch_or(ESR_ILLEGAL_REGISTER, Relaxed);
                Effect::None
            }
            Some(register) => self.write(register, value),
        }
    }

    /// Handles `rdmsr` of the APIC base register.
    pub fn read_base(&self) -> u64 {
        let boot = if self.id() == 0 { BASE_BSP } else { 0 };
        MMIO_BASE | u64::from(self.mode.load(Relaxed) | boot)
    }

    /// Handles `wrmsr` of the APIC base register. The mode may change as in the SDM's state diagram ("x2APIC State
    /// Transitions"); the page cannot be moved. Switching the APIC off resets all but its ID; switching to x2APIC
    /// derives LDR from the ID.
    pub fn write_base(&self, value: u64) -> Effect {
        let old = self.mode.load(Relaxed);
        let bits = (value & 0xffff_ffff) as u32;
        let new = bits & (BASE_ENABLED | BASE_X2APIC);
        let page = value & !u64::from(BASE_ENABLED | BASE_X2APIC | BASE_BSP);
        let x2apic = BASE_ENABLED | BASE_X2APIC;
        let forbidden = match (old, new) {
            // Invalid: x2APIC without the enable bit; from off directly to x2APIC; from x2APIC back to xAPIC.
            (_, BASE_X2APIC) => true,
            (0, new) if new == x2apic => true,
            (old, BASE_ENABLED) => old == x2apic,
            _ => false,
        };
        if forbidden || page != MMIO_BASE {
            return Effect::Fault;
        }
        if old != new {
            if new == 0 {
                self.reset(self.id());
            }
            self.mode.store(new, Relaxed);
            if new == x2apic {
                let id = self.id();
                self.ldr.store(id >> 4 << 16 | 1 << (id & 0xf), Relaxed);
            }
        }
        Effect::None
    }

    /// Reads a register's 32 bits.
    pub fn read(&self, register: Register) -> u32 {
        match register {
            Register::Id if self.is_x2apic() => self.id(),
            Register::Id => self.id() << 24,
            Register::Version => VERSION,
            Register::Tpr => self.tpr().into(),
            Register::Ppr | Register::Apr => self.ppr().into(),
            Register::Eoi | Register::SelfIpi => 0,
            Register::Ldr => self.ldr(),
            Register::Dfr => self.dfr.load(Relaxed),
            Register::Svr => self.svr.load(Relaxed),
            Register::Isr(index) => self.isr.word(index),
            Register::Tmr(index) => self.tmr.word(index),
            Register::Irr(index) => self.irr.word(index),
            Register::Esr => self.esr.load(Relaxed),
            Register::Icr => self.icr_low.load(Relaxed),
            Register::IcrHigh => self.icr_high.load(Relaxed),
        }
    }

    /// Writes a register's 32 bits. A write to a read-only register has no effect.
    pub fn write(&self, register: Register, value: u32) -> Effect {
        match register {
            Register::Tpr => self.tpr.store(value & 0xff, Relaxed),
            Register::Eoi => return self.eoi().map_or(Effect::None, Effect::Eoi),
            Register::Ldr => self.ldr.store(value & 0xff00_0000, Relaxed),
            Register::Dfr => self.dfr.store(value | !DFR_MODEL, Relaxed),
            Register::Svr => self.svr.store(value & SVR_WRITABLE, Relaxed),
            Register::Esr => self
                .esr
                .store(self.pending_errors.swap(0, Relaxed), Relaxed),
            Register::IcrHigh => self.icr_high.store(value & 0xff00_0000, Relaxed),
            Register::Icr => {
                let Some(message) = self.icr_message(value, self.icr_high.load(Relaxed)) else {
                    return Effect::Fault;
                };
                self.icr_low.store(value & !ICR_SEND_PENDING, Relaxed);
                return self.send(message);
            }
            Register::SelfIpi => {
                return self.send(Message {
                    vector: (value & 0xff) as u8,
                    mode: Mode::Fixed,
                    level: false,
                    destination: Destination::Physical(self.id()),
                });
            }
            _ => {}
        }
        Effect::None
    }

    /// The IPI that a write to ICR sends; `None` if its delivery mode is not emulated.
    fn icr_message(&self, low: u32, high: u32) -> Option<Message> {
        let logical = low & ICR_LOGICAL != 0;
        let destination = match low >> 18 & 3 {
            0 if self.is_x2apic() => Destination::wide(high, logical),
            0 => Destination::narrow((high >> 24) as u8, logical),
            1 => Destination::Physical(self.id()),
            2 => Destination::All,
            _ => Destination::AllBut(self.id()),
        };
        Some(Message {
            vector: (low & 0xff) as u8,
            mode: Mode::from_bits(low >> 8)?,
            level: false,
            destination,
        })
    }

    /// Sends an IPI. If its vector is below 16, records the error in ESR instead.
    fn send(&self, message: Message) -> Effect {
        if message.vector < FIRST_VECTOR {
            self.pending_errors
                .fetch_or(ESR_SEND_ILLEGAL_VECTOR, Relaxed);
            return Effect::None;
        }
        Effect::Ipi(message)
    }
}

fn msr_register(index: u32) -> Option<u8> {
    u8::try_from(index.checked_sub(MSR_BASE)?).ok()
}

/// The index of the register at an offset, and the byte in its 16 bytes.
fn mmio_register(offset: u64) -> (u8, u32) {
    ((offset >> 4 & 0xff) as u8, (offset & 0xf) as u32)
}

/// Guest-physical address of the page with an xAPIC's registers.
pub const MMIO_BASE: u64 = 0xfee0_0000;
/// Size of that page in bytes.
pub const MMIO_SIZE: u64 = 0x1000;
/// The APIC base register, which holds the APIC's mode.
pub const MSR_APIC_BASE: u32 = 0x1b;
/// The first MSR of an x2APIC.
pub const MSR_BASE: u32 = 0x800;
/// The first MSR number after those of an x2APIC.
pub const MSR_END: u32 = 0x900;

/// APIC base register: this is the bootstrap processor.
const BASE_BSP: u32 = 1 << 8;
/// Writable bits of SVR: vector, enabled, focus checking.
const SVR_WRITABLE: u32 = 0x3ff;
/// ICR: the destination is logical.
const ICR_LOGICAL: u32 = 1 << 11;
/// ICR: delivery status, send pending; never set in this APIC.
const ICR_SEND_PENDING: u32 = 1 << 12;
/// Reserved bits of the ICR's low half.
const ICR_RESERVED: u32 = 0xfff3_2000;

/// ESR: send illegal vector: a vector below 16.
const ESR_SEND_ILLEGAL_VECTOR: u32 = 1 << 5;
/// ESR: illegal register address.
const ESR_ILLEGAL_REGISTER: u32 = 1 << 7;

/// The version register: an integrated APIC. The field Max LVT Entry is 0, as there is no local vector table.
const VERSION: u32 = 0x14;

/// A register, in the page or as an MSR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Register {
    /// APIC ID.
    Id,
    /// Version.
    Version,
    /// Task priority.
    Tpr,
    /// Arbitration priority; xAPIC only.
    Apr,
    /// Processor priority.
    Ppr,
    /// End of interrupt.
    Eoi,
    /// Logical destination.
    Ldr,
    /// Destination format; xAPIC only.
    Dfr,
    /// Spurious-interrupt vector, and the software enable bit.
    Svr,
    /// In service: one of 8 registers (0 to 7) with 32 vectors each.
    Isr(u8),
    /// Trigger modes: one of 8 registers (0 to 7) with 32 vectors each.
    Tmr(u8),
    /// Interrupt requests: one of 8 registers (0 to 7) with 32 vectors each.
    Irr(u8),
    /// Error status.
    Esr,
    /// Interrupt command; all 64 bits in an x2APIC, the low half in an xAPIC.
    Icr,
    /// The high half of the interrupt command; xAPIC only.
    IcrHigh,
    /// Self-IPI; x2APIC only.
    SelfIpi,
}

impl Register {
    /// Finds a register by its index: bits 11:4 of its offset in the page, or bits 7:0 of its MSR number.
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
