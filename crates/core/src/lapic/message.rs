//! Messages to local APICs: IPIs, message-signalled interrupts, and interrupts from the I/O APIC (SDM volume 3,
//! "Interrupt Command Register" and "Message Address Register Format").

use super::{Lapic, Raise};

/// An interrupt message on its way to local APICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// The vector.
    pub vector: u8,
    /// The delivery mode.
    pub mode: Mode,
    /// Whether the interrupt is level-triggered, not edge-triggered.
    pub level: bool,
    /// The APICs to which the message goes.
    pub destination: Destination,
}

/// The delivery mode: to how many of the destination's APICs a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// To all of the destination's APICs.
    Fixed,
    /// To the destination's APIC with the lowest priority; on a tie, to the first such APIC.
    LowestPriority,
}

impl Mode {
    /// Decodes the three bits of a delivery mode in a register or an MSI. `None` for SMI, NMI, INIT, start-up and
    /// ExtINT, which a paravirtual guest does not use.
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
    /// The APIC with this ID.
    Physical(u32),
    /// The APICs whose logical destination register matches this.
    Logical(u32),
    /// All APICs.
    All,
    /// All APICs except the one with this ID.
    AllBut(u32),
}

impl Destination {
    /// Decodes the 8-bit destination field of the I/O APIC, an MSI or an xAPIC's ICR.
    pub fn narrow(field: u8, logical: bool) -> Self {
        match (field, logical) {
            (field, true) => Self::Logical(field.into()),
            (u8::MAX, false) => Self::All,
            (field, false) => Self::Physical(field.into()),
        }
    }

    /// Decodes the 32-bit destination field of an x2APIC's ICR.
    pub fn wide(field: u32, logical: bool) -> Self {
        match (field, logical) {
            (u32::MAX, _) => Self::All,
            (field, true) => Self::Logical(field),
            (field, false) => Self::Physical(field),
        }
    }

    /// Whether the destination includes an APIC.
    pub fn includes(self, lapic: &Lapic) -> bool {
        match self {
            Self::Physical(id) => lapic.id() == id,
            Self::Logical(address) => lapic.has_logical_id(address),
            Self::All => true,
            Self::AllBut(id) => lapic.id() != id,
        }
    }
}

impl Message {
    /// Raises the vector in each APIC of the destination, and calls `accepted` with the index of each in which it was
    /// not pending before. Refused if no APIC accepted it; coalesced if it was already pending in each that did.
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
    /// Whether a logical destination includes this APIC.
    fn has_logical_id(&self, address: u32) -> bool {
        let own = self.ldr();
        if self.is_x2apic() {
            return own >> 16 == address >> 16 && own & address & 0xffff != 0;
        }
        let (own, address) = (own >> 24, address & 0xff);
        if self.is_flat_model() {
            own & address != 0
        } else {
            own >> 4 == address >> 4 && own & address & 0xf != 0
        }
    }
}
