//! What a guest program is told, and what it reports: one page at the start of RAM.

use std::mem::offset_of;

use vm_memory::{Bytes, GuestAddress, GuestMemoryError, GuestMemoryMmap};

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
    pad0: [u64; 4],
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

/// What a program reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// Ticks that the last run's operations took.
    pub ticks: u64,
    /// Operations performed since the start, over all runs.
    pub rings: u64,
    /// How often the doorbell word was rung.
    pub word: u64,
}

impl Results {
    /// Reads them from the page at `page`.
    pub fn read(memory: &GuestMemoryMmap, page: GuestAddress) -> Result<Self, GuestMemoryError> {
        let field = |offset: usize| memory.read_obj(GuestAddress(page.0 + offset as u64));
        Ok(Self {
            ticks: field(offset::TICKS)?,
            rings: field(offset::RINGS)?,
            word: field(offset::WORD)?,
        })
    }
}
