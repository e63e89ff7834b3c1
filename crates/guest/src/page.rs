//! The parameters of a guest program and the results that it reports, in one page at the start of RAM.
//!
//! [`guest_page`](crate::guest_page) is the page's only description: the host's offsets and the names in
//! assembler sources are generated from it.

use vm_memory::{Bytes, GuestAddress, GuestMemoryError, GuestMemoryMmap};

use vmbell::irq::Gic;

/// The vector of every interrupt that the programs send or take.
pub const VECTOR: u8 = 0x51;
/// Offset of the interrupt handler in a program that takes interrupts, in bytes.
pub const HANDLER: u64 = 16;

/// The page's words of 8 bytes each, as offset, name and meaning. The guest writes the words from `TICKS` to
/// `EOI_WORD`. A word that one side writes while the other side polls it has its own cache line. The macro passes the
/// table to the macro `$then`, after that macro's arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! guest_page {
    ($then:ident $arguments:tt) => {
        $crate::$then! { $arguments
            0x000 COUNT "Operations to perform."
            0x008 ADDRESS "Port, address or hypercall number to ring, or what else the program says."
            0x010 VALUE "What to write there."
            0x018 PAUSE "Ticks to wait before each ring of a latency program."
            0x020 PV_EOI "Address of the PV EOI word, or 0."
            0x028 XAPIC "Not 0: the local APIC's registers are in its page."
            0x030 ROUTE "Low half of the redirection entry that the program writes; 0: it writes none."
            0x038 PIN "The I/O APIC's pin of that entry."
            0x040 TICKS "Ticks that the operations of the last run took."
            0x048 RINGS "Operations performed since the start, over all runs."
            0x080 STAMP "The TSC right before the last ring."
            0x0c0 ANSWERED "How many rings of a latency program the host has answered, or interrupts the other vcpus."
            0x0c8 PENDING "Vcpus that have not yet answered the last such interrupt; the host sets it before the first run."
            0x100 WORD "The doorbell word: how often it was rung."
            0x140 INTERRUPTS "Interrupts taken since the start."
            0x148 ENTERED "The TSC at the first instruction of the last handler."
            0x150 SPARED "Ends of interrupts that needed no register."
            0x158 READY "Runs that are ready for their interrupts."
            0x160 TARGET "How many interrupts this run ends with; the host may lower it. Of interrupts to all other vcpus, the last one."
            0x168 SERVED "Interrupts of an assigned device in which the device had something to serve."
            0x170 LATENCY "Ticks from the stores that raised those to their handlers, all together."
            0x180 EOI_WORD "The PV EOI word."
            0x1c0 GIC "The version of the interrupt controller on arm64: 2 or 3."
            0x1c8 INTID "The interrupt that the program takes on arm64: 32 and more are SPIs, 8192 and more LPIs."
            0x1d0 LEVEL "Not 0: that interrupt is level-sensitive."
            0x1d8 TABLES "Address of free memory for the tables of LPIs, or 0."
            0x1e0 DEVICE "The ITS's number of the device whose message is that LPI."
            0x1e8 EVENT "The data of that message."
        }
    };
}

/// A constant for each word of the page.
#[doc(hidden)]
#[macro_export]
macro_rules! guest_page_offsets {
    ([] $($at:literal $name:ident $what:literal)*) => {
        $(#[doc = $what]
        pub const $name: usize = $at;)*
        #[cfg(test)]
        pub(super) const ALL: &[(&str, usize)] = &[$((stringify!($name), $at)),*];
    };
}

/// Offsets of the page's words, in bytes.
pub mod offset {
    guest_page! { guest_page_offsets [] }
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// The number of operations to perform.
    pub count: u64,
    /// The port, address or hypercall number to ring.
    pub address: u64,
    /// The value to write there.
    pub value: u64,
    /// TSC ticks to wait before each notification of a latency program.
    pub pause: u64,
}

/// How a program that takes interrupts ends them, and where they come from. The program reads these settings once, at
/// its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// Whether the program enables paravirtual EOI.
    pub pv_eoi: bool,
    /// Whether the program uses the local APIC's memory page (xAPIC) instead of its MSRs (x2APIC).
    pub xapic: bool,
    /// The pin of the I/O APIC that the program sets up, and the low half of its redirection entry; `None` for no pin.
    pub route: Option<(u8, u32)>,
    /// The interrupt that the program sets up on arm64, if any.
    pub gic: Option<GicInterrupt>,
}

/// The interrupt that a program sets up and takes on arm64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GicInterrupt {
    /// The interrupt controllers of the guest.
    pub gic: Gic,
    /// The number of the interrupt: an SPI, or an LPI if there is a message.
    pub intid: u32,
    /// Whether the interrupt is level-sensitive; otherwise it is edge-triggered.
    pub level: bool,
    /// The message that becomes this LPI; `None` if the interrupt is an SPI.
    pub message: Option<LpiMessage>,
}

/// The message of an LPI, which the guest maps in the ITS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LpiMessage {
    /// Guest-physical address of 512 KiB of free memory for the tables, aligned to 64 KiB.
    pub tables: u64,
    /// The device's number at the ITS.
    pub device: u32,
    /// The data of the message.
    pub event: u32,
}

impl Parameters {
    /// Writes the parameters to the page at `page`. Fails if the page is not in RAM.
    pub fn write(
        &self,
        memory: &GuestMemoryMmap,
        page: GuestAddress,
    ) -> Result<(), GuestMemoryError> {
        let words = [
            (offset::COUNT, self.count),
            (offset::ADDRESS, self.address),
            (offset::VALUE, self.value),
            (offset::PAUSE, self.pause),
        ];
        store(memory, page, &words)
    }
}

impl Interrupts {
    /// Writes these settings to the page at `page`. Fails if the page is not in RAM.
    pub fn write(
        &self,
        memory: &GuestMemoryMmap,
        page: GuestAddress,
    ) -> Result<(), GuestMemoryError> {
        let Interrupts {
            pv_eoi,
            xapic,
            route,
            gic,
        } = *self;
        let word = page.0 + offset::EOI_WORD as u64;
        let (pin, entry) = route.unwrap_or_default();
        if let Some(interrupt) = gic {
            interrupt.write(memory, page)?;
        }
        let words = [
            (offset::PV_EOI, if pv_eoi { word } else { 0 }),
            (offset::XAPIC, xapic.into()),
            (offset::ROUTE, entry.into()),
            (offset::PIN, pin.into()),
        ];
        store(memory, page, &words)
    }
}

impl GicInterrupt {
    fn write(&self, memory: &GuestMemoryMmap, page: GuestAddress) -> Result<(), GuestMemoryError> {
        let message = self.message.unwrap_or(LpiMessage {
            tables: 0,
            device: 0,
            event: 0,
        });
        let words = [
            (offset::GIC, self.gic.version().into()),
            (offset::INTID, self.intid.into()),
            (offset::LEVEL, self.level.into()),
            (offset::TABLES, message.tables),
            (offset::DEVICE, message.device.into()),
            (offset::EVENT, message.event.into()),
        ];
        store(memory, page, &words)
    }
}

/// The results that a program reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// TSC ticks that the operations of the last run took.
    pub ticks: u64,
    /// Operations performed since the start, over all runs.
    pub rings: u64,
    /// How often the program rang the doorbell word.
    pub word: u64,
    /// Interrupts taken since the start.
    pub interrupts: u64,
    /// EOIs that needed no access to a register (paravirtual EOI).
    pub spared: u64,
    /// Interrupts of an assigned device that had something to serve; the others were spurious.
    pub served: u64,
    /// The sum of TSC ticks from the stores that raised those interrupts to the first instructions of their handlers.
    pub latency: u64,
}

impl Results {
    /// Reads the results from the page at `page`. Fails if the page is not in RAM.
    pub fn read(memory: &GuestMemoryMmap, page: GuestAddress) -> Result<Self, GuestMemoryError> {
        let field = |offset: usize| memory.read_obj(GuestAddress(page.0 + offset as u64));
        Ok(Self {
            ticks: field(offset::TICKS)?,
            rings: field(offset::RINGS)?,
            word: field(offset::WORD)?,
            interrupts: field(offset::INTERRUPTS)?,
            spared: field(offset::SPARED)?,
            served: field(offset::SERVED)?,
            latency: field(offset::LATENCY)?,
        })
    }
}

fn store(
    memory: &GuestMemoryMmap,
    page: GuestAddress,
    words: &[(usize, u64)],
) -> Result<(), GuestMemoryError> {
    words.iter().try_for_each(|(offset, value)| {
        memory.write_obj(*value, GuestAddress(page.0 + *offset as u64))
    })
}

#[cfg(test)]
mod tests {
    use super::offset::ALL;

    #[test]
    fn words_of_the_page_are_aligned_and_do_not_overlap() {
        assert!(ALL.iter().all(|(_, at)| at % 8 == 0), "{ALL:x?}");
        assert!(
            ALL.is_sorted_by(|(_, before), (_, at)| before < at),
            "{ALL:x?}"
        );
    }
}
