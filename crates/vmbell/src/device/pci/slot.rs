//! A PCI function in its slot: its configuration space, and its BARs on the buses. It runs on the thread of the
//! vCPU that configures.

use std::sync::Arc;

use super::bar::{BARS, BarSpace};
use super::config::ConfigSpace;
use super::{PciError, PciFunction, Windows};
use crate::bus::{Bus, BusDevice, BusError, BusRange};

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
    pub(super) config: ConfigSpace,
    /// The registers at the start of the guest and after a reset.
    initial: ConfigSpace,
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
        let mut config = ConfigSpace::new(function.identity(), bars);
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

    /// Restores the registers that the guest found at its start.
    pub(super) fn reset(&mut self) {
        self.config = self.initial.clone();
        self.function.reset();
    }
}
