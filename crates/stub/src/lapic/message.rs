//! What travels to local APICs: IPIs, message-signalled interrupts, and those of the I/O APIC
//! (SDM volume 3, "Interrupt Command Register" and "Message Address Register Format").

use super::{Lapic, Raise, register};

/// An interrupt on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// The vector.
    pub vector: u8,
    /// To how many.
    pub mode: Mode,
    /// Level rather than edge.
    pub level: bool,
    /// To whom.
    pub destination: Destination,
}

/// To how many of the destination's APICs a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// All.
    Fixed,
    /// The one with the lowest priority; of equals the first.
    LowestPriority,
}

impl Mode {
    /// From the three bits of a register or an MSI. SMI, NMI, INIT, start-up and ExtINT are none of
    /// a paravirtual guest's.
    pub fn from_bits(bits: u32) -> Option<Self> {
        match bits & 7 {
            0 => Some(Self::Fixed),
            1 => Some(Self::LowestPriority),
            _ => None,
        }
    }
}

/// Which APICs a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// The one with this APIC ID.
    Physical(u32),
    /// Those that have this in their logical destination register.
    Logical(u32),
    /// All.
    All,
    /// All but the one with this APIC ID.
    AllBut(u32),
}

impl Destination {
    /// Of an 8-bit destination field, as I/O APIC, MSI and an xAPIC's ICR have it.
    pub fn narrow(field: u8, logical: bool) -> Self {
        match (field, logical) {
            (field, true) => Self::Logical(field.into()),
            (u8::MAX, false) => Self::All,
            (field, false) => Self::Physical(field.into()),
        }
    }

    /// Of an x2APIC's 32-bit destination field.
    pub fn wide(field: u32, logical: bool) -> Self {
        match (field, logical) {
            (u32::MAX, _) => Self::All,
            (field, true) => Self::Logical(field),
            (field, false) => Self::Physical(field),
        }
    }

    /// Whether an APIC is among them.
    pub fn includes(self, lapic: &Lapic) -> bool {
        match self {
            Self::Physical(id) => lapic.id() == id,
            Self::Logical(address) => lapic.answers(address),
            Self::All => true,
            Self::AllBut(id) => lapic.id() != id,
        }
    }
}

impl Message {
    /// Raises the vector wherever it is for, and names the index of each APIC that newly has it
    /// pending. Refused if no APIC took it; coalesced if each that takes it had it pending already.
    pub fn deliver<'l>(
        &self,
        lapics: impl Iterator<Item = &'l Lapic> + Clone,
        mut accepted: impl FnMut(usize),
    ) -> Raise {
        let takers = || {
            let included = |(_, lapic): &(usize, &Lapic)| self.destination.includes(lapic);
            lapics.clone().enumerate().filter(included)
        };
        let chosen = match self.mode {
            Mode::Fixed => None,
            Mode::LowestPriority => {
                let enabled = takers().filter(|(_, lapic)| lapic.is_enabled());
                let lowest = enabled.min_by_key(|(_, lapic)| lapic.ppr());
                let Some((index, _)) = lowest else {
                    return Raise::Refused;
                };
                Some(index)
            }
        };
        let mut all = Raise::Refused;
        for (index, lapic) in takers() {
            if chosen.is_some_and(|chosen| chosen != index) {
                continue;
            }
            match lapic.raise(self.vector, self.level) {
                Raise::Accepted => {
                    accepted(index);
                    all = Raise::Accepted;
                }
                Raise::Coalesced if all == Raise::Refused => all = Raise::Coalesced,
                _ => {}
            }
        }
        all
    }
}

impl Lapic {
    /// Whether a logical destination names this APIC.
    fn answers(&self, address: u32) -> bool {
        let own = self.logical();
        if self.is_x2apic() {
            return own >> 16 == address >> 16 && own & address & 0xffff != 0;
        }
        let (own, address) = (own >> 24, address & 0xff);
        if self.is_flat() {
            own & address != 0
        } else {
            own >> 4 == address >> 4 && own & address & 0xf != 0
        }
    }

    /// What a write to ICR sends. None if that is no interrupt of a paravirtual guest.
    pub(super) fn command(&self, low: u32, high: u32) -> Option<Message> {
        let logical = low & register::ICR_LOGICAL != 0;
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
}
