//! A PCI function in its slot: its configuration space, and its BARs on the buses. Runs on the thread of the vCPU that
//! makes the access.

use std::ops::Range;
use std::sync::Arc;

use super::bar::{BARS, Bar, BarSpace};
use super::board::Board;
use super::capability::CONFIG_SIZE;
use super::config::ConfigSpace;
use super::error::PciError;
use super::function::{FunctionInfo, OwnRegisters, PciFunction};
use vmbell::bus::{Bus, BusDevice, BusRange};
use vmbell::irq::Gsi;

/// Bytes of a dword, the widest access to a register.
const DWORD: usize = 4;

/// The line register of a function whose pin is not connected (PCI 3.0, 6.2.4).
const NO_LINE: u8 = 0xff;

/// The two buses on which BARs are mapped.
#[derive(Clone, Copy)]
pub(super) struct Buses<'b> {
    pub(super) pio: &'b Bus,
    pub(super) mmio: &'b Bus,
    /// Addresses of memory that is not on the bus.
    pub(super) reserved: &'b [BusRange],
}

impl<'b> Buses<'b> {
    const fn of(self, space: BarSpace) -> &'b Bus {
        match space {
            BarSpace::Io => self.pio,
            BarSpace::Memory32 | BarSpace::Memory64 => self.mmio,
        }
    }

    /// The memory outside of the bus that a BAR at `range` would cover.
    fn reserved(self, space: BarSpace, range: BusRange) -> Option<BusRange> {
        let mut reserved = self.reserved.iter().copied();
        match space {
            BarSpace::Io => None,
            BarSpace::Memory32 | BarSpace::Memory64 => {
                reserved.find(|reserved| reserved.overlaps(range))
            }
        }
    }
}

/// One BAR as a device of a bus.
struct BarDevice {
    function: Arc<dyn PciFunction>,
    bar: usize,
}

impl BusDevice for BarDevice {
    fn read(&self, offset: u64, data: &mut [u8]) {
        self.function.read(self.bar, offset, data);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        self.function.write(self.bar, offset, data);
    }
}

/// A slot that has a function.
#[derive(Debug)]
pub(super) struct Slot {
    function: Arc<dyn PciFunction>,
    name: &'static str,
    bars: [Option<Bar>; BARS],
    /// The GSI that the interrupt pin raises, if the pin is connected.
    intx: Option<Gsi>,
    config: ConfigSpace,
    /// The registers at the guest's start and after a reset.
    initial: ConfigSpace,
    /// Whether the function answers for registers itself.
    has_own: bool,
    /// When the function's own registers may change.
    own: OwnRegisters,
    /// Whether the function has been told the current registers.
    is_announced: bool,
    /// The range of each BAR on its bus; `None` if the BAR is not mapped.
    placed: [Option<BusRange>; BARS],
    /// The BARs whose conflict has been reported.
    reported: [bool; BARS],
}

impl Slot {
    /// Creates slot `number`. Its BARs have addresses and are not mapped yet.
    pub(super) fn new(
        function: Arc<dyn PciFunction>,
        number: usize,
        board: &mut Board,
    ) -> Result<Self, PciError> {
        let FunctionInfo {
            name,
            identity,
            bars,
            registers,
        } = function.info();
        let mut config = ConfigSpace::new(identity, bars);
        config.add(&registers);
        for (index, bar) in bars.into_iter().enumerate() {
            let Some(bar) = bar else { continue };
            bar.check(name, index)?;
            let upper = bars.get(index + 1).copied().flatten();
            if bar.space == BarSpace::Memory64 && upper.is_some() {
                return Err(PciError::UpperHalf { name, bar: index });
            }
            let base = board.windows.take(bar).map_err(|window| PciError::NoRoom {
                name,
                bar: index,
                size: bar.size,
                window,
            })?;
            config.assign(index, base);
        }
        config.enable_decode();
        let intx = registers.pin.and_then(|pin| (board.intx)(number, pin));
        if registers.pin.is_some() {
            let line = intx.and_then(|gsi| u8::try_from(gsi.number()).ok());
            config.assign_line(line.unwrap_or(NO_LINE));
        }
        let initial = config.clone();
        Ok(Self {
            function,
            name,
            bars,
            intx,
            config,
            initial,
            has_own: registers.own,
            own: OwnRegisters::Live,
            is_announced: false,
            placed: [None; BARS],
            reported: [false; BARS],
        })
    }

    /// Removes from the bus the BARs that are no longer at the addresses in their registers.
    pub(super) fn withdraw(&mut self, buses: Buses<'_>) {
        for (index, (placed, bar)) in self.placed.iter_mut().zip(self.bars).enumerate() {
            let (Some(range), Some(bar)) = (*placed, bar) else {
                continue;
            };
            if self.config.placed(index) == Some(range) {
                continue;
            }
            // The doorbells are removed before the BAR: a write in between still reaches the device.
            self.function.moved(index, None);
            let removed = buses.of(bar.space).remove(range);
            debug_assert!(removed.is_ok(), "{range} was put there by us");
            *placed = None;
        }
    }

    /// Removes all BARs from the bus.
    pub(super) fn unmap(&mut self, buses: Buses<'_>) {
        self.config.disable_decode();
        self.withdraw(buses);
    }

    /// Adds the unmapped BARs to the bus, at the addresses in their registers. If other memory or another device has
    /// the addresses, the BAR stays unmapped until they are free or the BAR moves. The first such conflict of each BAR
    /// is reported.
    pub(super) fn map_bars(&mut self, buses: Buses<'_>, mut report: impl FnMut(PciError)) {
        for (index, bar) in self.bars.into_iter().enumerate() {
            let (None, Some(bar), Some(range)) =
                (self.placed[index], bar, self.config.placed(index))
            else {
                continue;
            };
            match self.place(buses, index, bar, range) {
                Ok(()) => {
                    self.placed[index] = Some(range);
                    self.function.moved(index, Some(range.first()));
                }
                Err(_) if self.reported[index] => {}
                Err(error) => {
                    self.reported[index] = true;
                    report(error);
                }
            }
        }
    }

    fn place(
        &self,
        buses: Buses<'_>,
        index: usize,
        bar: Bar,
        range: BusRange,
    ) -> Result<(), PciError> {
        let name = self.name;
        if let Some(reserved) = buses.reserved(bar.space, range) {
            return Err(PciError::Reserved {
                name,
                bar: index,
                range,
                reserved,
            });
        }
        let device = BarDevice {
            function: Arc::clone(&self.function),
            bar: index,
        };
        let inserted = buses.of(bar.space).insert(range, Arc::new(device));
        inserted.map_err(|source| PciError::Clash {
            name,
            bar: index,
            source,
        })
    }

    /// Reads registers, at any offset and width.
    pub(super) fn read(&self, offset: usize, data: &mut [u8]) {
        self.config.read(offset, data);
        for run in self.own_runs(offset, data.len()) {
            let mut own = [0xff; DWORD];
            let own = &mut own[..run.len()];
            self.function.read_config(offset + run.start, own);
            for (index, own) in run.zip(own) {
                let mask = self.config.own(offset + index);
                data[index] = data[index] & !mask | *own & mask;
            }
        }
    }

    /// Whether each register changes only when the guest writes to it.
    pub(super) fn is_still(&self) -> bool {
        !self.has_own || self.own == OwnRegisters::Still
    }

    /// Writes registers, at any offset and width. [`announce_registers`](Self::announce_registers) then tells the
    /// function.
    pub(super) fn write(&mut self, offset: usize, data: &[u8]) {
        self.config.write(offset, data);
        for run in self.own_runs(offset, data.len()) {
            let own = &data[run.clone()];
            self.function.write_config(offset + run.start, own);
        }
        self.is_announced = false;
    }

    /// The parts of an access for which the function itself answers, each of them inside one dword.
    fn own_runs(&self, offset: usize, len: usize) -> impl Iterator<Item = Range<usize>> + use<'_> {
        let is_own = move |index: &usize| self.config.own(offset + index) != 0;
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = (next..len).find(is_own)?;
            let dword = (DWORD - (offset + start) % DWORD).min(len - start);
            let mut end = start..start + dword;
            next = end.find(|index| !is_own(index)).unwrap_or(end.end);
            Some(start..next)
        })
    }

    /// Announces the registers to the function if they may have changed. BARs that move have already been withdrawn,
    /// and are mapped afterwards.
    pub(super) fn announce_registers(&mut self) {
        if !self.is_announced {
            self.is_announced = true;
            self.own = self.function.configured(&self.config, self.intx);
        }
    }

    /// Restores the registers of the guest's start. [`reset`](Self::reset) must follow.
    pub(super) fn restore(&mut self) {
        self.config = self.initial.clone();
        self.is_announced = false;
    }

    /// The name of the function, for messages.
    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn function(&self) -> &dyn PciFunction {
        &*self.function
    }

    /// Reads all registers that the function does not answer for itself.
    pub(super) fn emulated_config(&self) -> Vec<u8> {
        let mut bytes = vec![0; CONFIG_SIZE];
        self.config.read(0, &mut bytes);
        bytes
    }

    /// Writes the bits that the guest can write, as it has written them.
    pub(super) fn restore_config(&mut self, bytes: &[u8]) {
        self.config.write(0, bytes);
        self.is_announced = false;
    }

    /// Resets the function.
    pub(super) fn reset(&self) {
        self.function.reset();
    }
}

#[cfg(test)]
#[path = "slot_test.rs"]
mod tests;
