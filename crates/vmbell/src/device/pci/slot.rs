//! A PCI function in its slot: its configuration space, and its BARs on the buses. It runs on the thread of the
//! vCPU that configures.

use std::ops::Range;
use std::sync::Arc;

use super::bar::{BARS, BarSpace};
use super::config::ConfigSpace;
use super::{PciError, PciFunction, Windows};
use crate::bus::{Bus, BusDevice, BusError, BusRange};

/// Bytes of a dword, the widest access to a register.
const DWORD: usize = 4;

/// The two buses on which BARs are mapped.
#[derive(Clone, Copy)]
pub(super) struct Buses<'b> {
    pub(super) pio: &'b Bus,
    pub(super) mmio: &'b Bus,
}

impl<'b> Buses<'b> {
    const fn of(self, space: BarSpace) -> &'b Bus {
        match space {
            BarSpace::Io => self.pio,
            BarSpace::Memory32 | BarSpace::Memory64 => self.mmio,
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

/// A slot with a function.
#[derive(Debug)]
pub(super) struct Slot {
    function: Arc<dyn PciFunction>,
    config: ConfigSpace,
    /// The registers at the start of the guest and after a reset.
    initial: ConfigSpace,
    /// Whether the function knows the registers as they are.
    told: bool,
    /// The range of each BAR on its bus; `None` if the BAR is not mapped.
    placed: [Option<BusRange>; BARS],
}

impl Slot {
    /// A slot whose BARs have addresses and are not mapped yet.
    pub(super) fn new(
        function: Arc<dyn PciFunction>,
        windows: &mut Windows,
    ) -> Result<Self, PciError> {
        let name = function.name();
        let bars = function.bars();
        let registers = function.registers();
        for capability in &registers.capabilities {
            if !capability.fits() {
                let (id, at) = (capability.id, capability.at);
                return Err(PciError::Capability { name, id, at });
            }
        }
        let mut config = ConfigSpace::new(function.identity(), bars);
        config.add(&registers);
        for (index, bar) in bars.into_iter().enumerate() {
            let Some(bar) = bar else { continue };
            bar.check(name, index)?;
            let base = windows.take(bar).map_err(|window| PciError::NoRoom {
                name,
                bar: index,
                size: bar.size,
                window,
            })?;
            config.assign(index, base);
        }
        config.enable_decode();
        let initial = config.clone();
        Ok(Self {
            function,
            config,
            initial,
            told: false,
            placed: [None; BARS],
        })
    }

    /// Removes the BARs from the bus that are not where their registers say.
    pub(super) fn withdraw(&mut self, buses: Buses<'_>) {
        let bars = self.function.bars();
        for (index, (placed, bar)) in self.placed.iter_mut().zip(bars).enumerate() {
            let (Some(range), Some(bar)) = (*placed, bar) else {
                continue;
            };
            if self.config.placed(index) == Some(range) {
                continue;
            }
            // The doorbells are removed first: then a write reaches the device until the BAR is removed, too.
            self.function.moved(index, None);
            let removed = buses.of(bar.space).remove(range);
            debug_assert!(removed.is_ok(), "{range} was put there by us");
            *placed = None;
        }
    }

    /// Adds the BARs to the bus that are not mapped where their registers say. If another device has the addresses,
    /// the BAR stays unmapped until that device is gone; the first such clash is returned.
    pub(super) fn settle(&mut self, buses: Buses<'_>) -> Result<(), PciError> {
        let bars = self.function.bars();
        let mut clash = Ok(());
        for (index, (placed, bar)) in self.placed.iter_mut().zip(bars).enumerate() {
            let (None, Some(bar), Some(range)) = (*placed, bar, self.config.placed(index)) else {
                continue;
            };
            let device = BarDevice {
                function: Arc::clone(&self.function),
                bar: index,
            };
            match buses.of(bar.space).insert(range, Arc::new(device)) {
                Ok(()) => {
                    *placed = Some(range);
                    self.function.moved(index, Some(range.first()));
                }
                Err(source) => clash = clash.and(Err((index, source))),
            }
        }
        clash.map_err(|(bar, source): (usize, BusError)| PciError::Clash {
            name: self.function.name(),
            bar,
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

    /// Writes registers, at any offset and width. What the function has to know of it, [`tell`](Self::tell) says.
    pub(super) fn write(&mut self, offset: usize, data: &[u8]) {
        self.config.write(offset, data);
        for run in self.own_runs(offset, data.len()) {
            let own = &data[run.clone()];
            self.function.write_config(offset + run.start, own);
        }
        self.told = false;
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

    /// Tells the function its registers, if they may have changed. BARs that move have been withdrawn before, and are
    /// settled afterwards.
    pub(super) fn tell(&mut self) {
        if !self.told {
            self.told = true;
            self.function.configured(&self.config);
        }
    }

    /// Restores the registers that the guest found at its start. [`reset`](Self::reset) has to follow.
    pub(super) fn restore(&mut self) {
        self.config = self.initial.clone();
        self.told = false;
    }

    /// Resets the function.
    pub(super) fn reset(&self) {
        self.function.reset();
    }
}

#[cfg(test)]
#[path = "slot_test.rs"]
mod tests;
