//! What a guest program is told, and what it reports: one page at the start of RAM.

use std::mem::offset_of;

use vm_memory::{Bytes, GuestAddress, GuestMemoryError, GuestMemoryMmap};

/// The vector of every interrupt that programs here send or take.
pub const VECTOR: u8 = 0x51;
/// How far into a program that takes interrupts its handler is.
pub const HANDLER: u64 = 16;

/// A program that has done its operations writes here, and goes on when it is entered again.
pub const DONE_PORT: u16 = 0xf4;

/// The page as guest and host see it; the guest writes from `ticks` on.
#[repr(C)]
#[derive(Debug)]
pub struct Layout {
    /// Operations to perform.
    pub count: u64,
    /// Port, address or hypercall number to ring.
    pub address: u64,
    /// What to write there.
    pub value: u64,
    /// Ticks to wait before each ring of a latency program.
    pub pause: u64,
    /// Where the PV EOI word is; 0 is nowhere.
    pub pv_eoi: u64,
    /// Not 0: the local APIC's registers are in its page.
    pub xapic: u64,
    /// What to write to the I/O APIC's redirection entry; 0 leaves it alone.
    pub route: u64,
    /// Which entry.
    pub pin: u64,
    /// Ticks that the operations took.
    pub ticks: u64,
    /// Operations performed since the start, over all runs.
    pub rings: u64,
    pad1: [u64; 6],
    /// The TSC right before the last ring, by itself on a cache line.
    pub stamp: u64,
    pad2: [u64; 7],
    /// How many rings of a latency program were answered.
    pub answered: u64,
    pad3: [u64; 7],
    /// The doorbell word: how often it was rung.
    pub word: u64,
    pad4: [u64; 7],
    /// Interrupts taken since the start.
    pub interrupts: u64,
    /// The TSC at the first instruction of the last handler.
    pub entered: u64,
    /// Ends of interrupts that needed no register.
    pub spared: u64,
    /// Runs that are ready for their interrupts.
    pub ready: u64,
    /// How many interrupts this run ends with; the host may lower it.
    pub target: u64,
    pad5: [u64; 3],
    /// The PV EOI word.
    pub eoi_word: u64,
}

/// Offsets for the programs.
pub mod offset {
    use super::{Layout, offset_of};

    #[doc = "See the field."]
    pub const COUNT: usize = offset_of!(Layout, count);
    #[doc = "See the field."]
    pub const ADDRESS: usize = offset_of!(Layout, address);
    #[doc = "See the field."]
    pub const VALUE: usize = offset_of!(Layout, value);
    #[doc = "See the field."]
    pub const PAUSE: usize = offset_of!(Layout, pause);
    #[doc = "See the field."]
    pub const TICKS: usize = offset_of!(Layout, ticks);
    #[doc = "See the field."]
    pub const RINGS: usize = offset_of!(Layout, rings);
    #[doc = "See the field."]
    pub const STAMP: usize = offset_of!(Layout, stamp);
    #[doc = "See the field."]
    pub const ANSWERED: usize = offset_of!(Layout, answered);
    #[doc = "See the field."]
    pub const WORD: usize = offset_of!(Layout, word);
    #[doc = "See the field."]
    pub const PV_EOI: usize = offset_of!(Layout, pv_eoi);
    #[doc = "See the field."]
    pub const XAPIC: usize = offset_of!(Layout, xapic);
    #[doc = "See the field."]
    pub const ROUTE: usize = offset_of!(Layout, route);
    #[doc = "See the field."]
    pub const PIN: usize = offset_of!(Layout, pin);
    #[doc = "See the field."]
    pub const INTERRUPTS: usize = offset_of!(Layout, interrupts);
    #[doc = "See the field."]
    pub const ENTERED: usize = offset_of!(Layout, entered);
    #[doc = "See the field."]
    pub const SPARED: usize = offset_of!(Layout, spared);
    #[doc = "See the field."]
    pub const READY: usize = offset_of!(Layout, ready);
    #[doc = "See the field."]
    pub const TARGET: usize = offset_of!(Layout, target);
    #[doc = "See the field."]
    pub const EOI_WORD: usize = offset_of!(Layout, eoi_word);
}

/// What a program is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Operations to perform.
    pub count: u64,
    /// Port, address or hypercall number to ring.
    pub address: u64,
    /// What to write there.
    pub value: u64,
    /// Ticks to wait before each ring of a latency program.
    pub pause: u64,
}

/// How a program that takes interrupts ends them, and where they come from. It looks once, at its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// Whether it asks for paravirtual EOI.
    pub pv_eoi: bool,
    /// Whether it uses the local APIC's page instead of its MSRs.
    pub xapic: bool,
    /// The I/O APIC's pin that it sets up, and the low half of the redirection entry.
    pub route: Option<(u8, u32)>,
}

impl Parameters {
    /// Writes them for the program whose page is at `page`.
    pub fn write(
        &self,
        memory: &GuestMemoryMmap,
        page: GuestAddress,
    ) -> Result<(), GuestMemoryError> {
        let fields = [
            (self.count, offset::COUNT),
            (self.address, offset::ADDRESS),
            (self.value, offset::VALUE),
            (self.pause, offset::PAUSE),
        ];
        for (value, offset) in fields {
            memory.write_obj(value, GuestAddress(page.0 + offset as u64))?;
        }
        Ok(())
    }
}

impl Interrupts {
    /// Writes them for the program whose page is at `page`.
    pub fn write(
        &self,
        memory: &GuestMemoryMmap,
        page: GuestAddress,
    ) -> Result<(), GuestMemoryError> {
        let Interrupts {
            pv_eoi,
            xapic,
            route,
        } = *self;
        let word = page.0 + offset::EOI_WORD as u64;
        let (pin, entry) = route.unwrap_or_default();
        let fields = [
            (if pv_eoi { word } else { 0 }, offset::PV_EOI),
            (xapic.into(), offset::XAPIC),
            (entry.into(), offset::ROUTE),
            (pin.into(), offset::PIN),
        ];
        for (value, offset) in fields {
            memory.write_obj::<u64>(value, GuestAddress(page.0 + offset as u64))?;
        }
        Ok(())
    }
}

/// What a program reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// Ticks that the last run's operations took.
    pub ticks: u64,
    /// Operations performed since the start, over all runs.
    pub rings: u64,
    /// How often the doorbell word was rung.
    pub word: u64,
    /// Interrupts taken since the start.
    pub interrupts: u64,
    /// Ends of interrupts that needed no register.
    pub spared: u64,
}

impl Results {
    /// Reads them from the page at `page`.
    pub fn read(memory: &GuestMemoryMmap, page: GuestAddress) -> Result<Self, GuestMemoryError> {
        let field = |offset: usize| memory.read_obj(GuestAddress(page.0 + offset as u64));
        Ok(Self {
            ticks: field(offset::TICKS)?,
            rings: field(offset::RINGS)?,
            word: field(offset::WORD)?,
            interrupts: field(offset::INTERRUPTS)?,
            spared: field(offset::SPARED)?,
        })
    }
}
