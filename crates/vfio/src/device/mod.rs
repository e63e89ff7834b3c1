//! A VFIO device. Its regions and interrupts are checked when it is opened, and every use is checked against them.
//!
//! The device and its driver may be hostile: each answer is read once. Any thread may use a [`Device`]; when it is
//! dropped, its interrupts are disabled and it is reset, which ends its DMA.
//!
//! ```
//! use vmbell_vfio::PassthroughError;
//! use vmbell_vfio::device::Device;
//!
//! /// The first four bytes of region 0, after a reset if the device has one.
//! fn first_word(device: &Device) -> Result<[u8; 4], PassthroughError> {
//!     if device.can_reset() {
//!         device.reset()?;
//!     }
//!     let mut word = [0; 4];
//!     device.read(0, 0, &mut word)?;
//!     Ok(word)
//! }
//! ```

mod command;
mod file;

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use vfio_bindings::bindings::vfio::{
    VFIO_DEVICE_FLAGS_AMBA, VFIO_DEVICE_FLAGS_PCI, VFIO_DEVICE_FLAGS_PLATFORM,
    VFIO_DEVICE_FLAGS_RESET,
};

use super::error::{PassthroughError, PassthroughErrorKind};
use crate::chain::word32;
use crate::irq_index::{self, IrqIndex};
use crate::region::{self, Region, RegionError};
use vmbell::eventfd::EventFd;
use vmbell_hypervisor::DeviceMemory;

pub use file::{Action, Data, DeviceFile, DeviceInfo, SetIrqs};

/// The maximum number of regions, and of interrupt indexes, that a device may have.
const INDEXES_MAX: u32 = 256;

/// The bus of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// PCI.
    Pci,
    /// A platform device, or a device of ARM's AMBA bus.
    Platform,
}

/// An open device.
pub struct Device {
    name: String,
    file: Box<dyn DeviceFile>,
    kind: DeviceKind,
    resets: bool,
    regions: Vec<Region>,
    irqs: Vec<IrqIndex>,
}

impl Device {
    /// Asks a device for its regions and interrupts. Fails if an answer is invalid.
    pub fn new(
        name: impl Into<String>,
        file: Box<dyn DeviceFile>,
    ) -> Result<Self, PassthroughError> {
        let name = name.into();
        let refused = |operation| PassthroughError::system(&name, operation);
        let info = file.info().map_err(refused("ask for its kind"))?;
        let kind = if info.flags & VFIO_DEVICE_FLAGS_PCI != 0 {
            DeviceKind::Pci
        } else if info.flags & (VFIO_DEVICE_FLAGS_PLATFORM | VFIO_DEVICE_FLAGS_AMBA) != 0 {
            DeviceKind::Platform
        } else {
            let flags = info.flags;
            return Err(PassthroughErrorKind::Kind { flags }.of(&name));
        };
        for count in [info.regions, info.irqs] {
            if count > INDEXES_MAX {
                let most = INDEXES_MAX;
                return Err(PassthroughErrorKind::Indexes { count, most }.of(&name));
            }
        }
        let regions = (0..info.regions)
            .map(|index| read_region(&name, &*file, index))
            .collect::<Result<_, _>>()?;
        let irqs = (0..info.irqs)
            .map(|index| read_irq_index(&name, &*file, index))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            kind,
            resets: info.flags & VFIO_DEVICE_FLAGS_RESET != 0,
            regions,
            irqs,
            name,
            file,
        })
    }

    /// The name under which the host knows the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device's open file.
    pub fn descriptor(&self) -> Arc<File> {
        self.file.mappable()
    }

    /// The device's bus.
    pub const fn kind(&self) -> DeviceKind {
        self.kind
    }

    /// All regions, by index.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Returns a region. Fails if the region is missing or empty.
    pub fn region(&self, index: u32) -> Result<&Region, PassthroughError> {
        let region = self.regions.get(index as usize);
        region
            .filter(|region| region.size > 0)
            .ok_or_else(|| self.error(PassthroughErrorKind::NoRegion { region: index }))
    }

    /// All interrupt indexes.
    pub fn irqs(&self) -> &[IrqIndex] {
        &self.irqs
    }

    /// Returns an interrupt index. Fails if it has no interrupts.
    pub fn irq(&self, index: u32) -> Result<&IrqIndex, PassthroughError> {
        self.interrupts(index, 0, 1)
    }

    /// Returns the memory of an area that can be mapped; `area` is in bytes from the region's start.
    pub fn memory(&self, region: &Region, area: &Range<u64>) -> DeviceMemory {
        DeviceMemory {
            file: self.file.mappable(),
            offset: region.offset + area.start,
            size: area.end - area.start,
            writable: region.writable,
        }
    }

    /// Reads from a region.
    pub fn read(&self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), PassthroughError> {
        let at = self.place(region, offset, data.len())?;
        let result = self.file.read(at, data);
        result.map_err(self.refused("read a region"))
    }

    /// Writes to a region.
    pub fn write(&self, region: u32, offset: u64, data: &[u8]) -> Result<(), PassthroughError> {
        let at = self.place(region, offset, data.len())?;
        let result = self.file.write(at, data);
        result.map_err(self.refused("write to a region"))
    }

    /// Returns the place of an access in the file. Fails unless all of it is in the region.
    fn place(&self, region: u32, offset: u64, len: usize) -> Result<u64, PassthroughError> {
        let found = self.region(region)?;
        let end = offset.checked_add(len as u64);
        if end.is_none_or(|end| end > found.size) {
            let size = found.size;
            return Err(self.error(PassthroughErrorKind::Access {
                region,
                offset,
                len,
                size,
            }));
        }
        Ok(found.offset + offset)
    }

    /// Whether the device can be reset by itself.
    pub const fn can_reset(&self) -> bool {
        self.resets
    }

    /// Resets the device. Fails with [`PassthroughErrorKind::NoReset`] if it has no reset.
    pub fn reset(&self) -> Result<(), PassthroughError> {
        if !self.resets {
            return Err(self.error(PassthroughErrorKind::NoReset));
        }
        self.file.reset().map_err(self.refused("reset it"))
    }

    /// Makes the device quiet: disables its interrupts, disables a PCI device's bus mastering to end its DMA, and
    /// resets the device if it has a reset.
    pub fn quiesce(&self) {
        // No caller can receive an error, and the kernel does the same when the file is closed.
        for irq in self.irqs.iter().filter(|irq| irq.count > 0) {
            let _ = self.disable(irq.index);
        }
        let _ = self.stop_dma();
        let _ = self.reset();
    }

    /// Makes the interrupts from `start` on signal these eventfds; `None` makes an interrupt signal nothing. This
    /// enables the index.
    pub fn set_triggers(
        &self,
        index: u32,
        start: u32,
        triggers: &[Option<&EventFd>],
    ) -> Result<(), PassthroughError> {
        self.interrupts(index, start, triggers.len())?;
        let data = Data::Eventfds(triggers);
        self.set_irqs("set the eventfds of", index, start, Action::Trigger, data)
    }

    /// Makes a signal of `unmask` unmask an interrupt; `None` takes that back. If `unmask` is signalled already, the
    /// interrupt is unmasked at once. Fails if the interrupt has an unmask eventfd.
    pub fn set_unmask(
        &self,
        index: u32,
        subindex: u32,
        unmask: Option<&EventFd>,
    ) -> Result<(), PassthroughError> {
        self.maskable(index, subindex)?;
        let data = Data::Eventfds(&[unmask]);
        let operation = "set the unmask eventfd of";
        self.set_irqs(operation, index, subindex, Action::Unmask, data)
    }

    /// Disables an index: its interrupts no longer signal anything, and the device's line is masked.
    pub fn disable(&self, index: u32) -> Result<(), PassthroughError> {
        self.set_irqs("disable", index, 0, Action::Trigger, Data::None(0))
    }

    /// Masks an interrupt.
    pub fn mask(&self, index: u32, subindex: u32) -> Result<(), PassthroughError> {
        self.maskable(index, subindex)?;
        self.set_irqs("mask", index, subindex, Action::Mask, Data::None(1))
    }

    /// Unmasks an interrupt: if its line is up, it is signalled again.
    pub fn unmask(&self, index: u32, subindex: u32) -> Result<(), PassthroughError> {
        self.maskable(index, subindex)?;
        self.set_irqs("unmask", index, subindex, Action::Unmask, Data::None(1))
    }

    /// Signals an interrupt as the device would. This also masks a level-triggered interrupt.
    pub fn trigger(&self, index: u32, subindex: u32) -> Result<(), PassthroughError> {
        self.interrupts(index, subindex, 1)?;
        self.set_irqs("signal", index, subindex, Action::Trigger, Data::None(1))
    }

    fn set_irqs(
        &self,
        operation: &'static str,
        index: u32,
        start: u32,
        action: Action,
        data: Data<'_>,
    ) -> Result<(), PassthroughError> {
        let request = SetIrqs {
            index,
            start,
            action,
            data,
        };
        let result = self.file.set_irqs(&request);
        result.map_err(|source| {
            self.error(PassthroughErrorKind::Interrupt {
                operation,
                index,
                source,
            })
        })
    }

    /// Returns the index, if it has `count` interrupts from `start` on.
    pub(crate) fn interrupts(
        &self,
        index: u32,
        start: u32,
        count: usize,
    ) -> Result<&IrqIndex, PassthroughError> {
        let found = self.irqs.get(index as usize);
        let has = found.map_or(0, |irq| irq.count);
        let end = (start as usize).checked_add(count);
        found
            .filter(|_| end.is_some_and(|end| end <= has as usize))
            .ok_or_else(|| {
                self.error(PassthroughErrorKind::NoInterrupt {
                    index,
                    subindex: start,
                    count: has,
                })
            })
    }

    fn maskable(&self, index: u32, subindex: u32) -> Result<(), PassthroughError> {
        if self.interrupts(index, subindex, 1)?.maskable {
            return Ok(());
        }
        Err(self.error(PassthroughErrorKind::NotMaskable { index }))
    }

    pub(crate) fn error(&self, kind: PassthroughErrorKind) -> PassthroughError {
        kind.of(&self.name)
    }

    fn refused(&self, operation: &'static str) -> impl Fn(io::Error) -> PassthroughError + '_ {
        PassthroughError::system(&self.name, operation)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.quiesce();
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("regions", &self.regions)
            .field("irqs", &self.irqs)
            .finish_non_exhaustive()
    }
}

/// Asks for a region, twice if its capabilities need more room.
fn read_region(name: &str, file: &dyn DeviceFile, index: u32) -> Result<Region, PassthroughError> {
    let failed = PassthroughError::system(name, "ask for a region");
    let refused = |source| {
        let region = index;
        PassthroughErrorKind::Region { region, source }.of(name)
    };
    let mut answer = match file.region_info(index, region::REGION_INFO) {
        Ok(answer) => answer,
        // The kernel has no region of this index, such as the VGA region (Linux vfio_pci_core.c).
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            return Ok(Region::absent(index));
        }
        Err(error) => return Err(failed(error)),
    };
    let wanted = word32(&answer, 0).unwrap_or_default();
    if wanted as usize > region::REGION_INFO_MAX {
        return Err(refused(RegionError::Long { len: wanted }));
    }
    if wanted as usize > answer.len() {
        answer = file.region_info(index, wanted as usize).map_err(failed)?;
    }
    region::parse(index, &answer).map_err(refused)
}

fn read_irq_index(
    name: &str,
    file: &dyn DeviceFile,
    index: u32,
) -> Result<IrqIndex, PassthroughError> {
    let (flags, count) = match file.irq_info(index) {
        Ok(answer) => answer,
        // A kind of interrupt that this device cannot have: conventional PCI has no error interrupt.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => (0, 0),
        Err(error) => {
            return Err(PassthroughError::system(name, "ask for an interrupt index")(error));
        }
    };
    let irq = irq_index::parse(index, flags, count);
    irq.map_err(|error| PassthroughErrorKind::IrqCount(error).of(name))
}

#[cfg(test)]
#[path = "device_test.rs"]
mod tests;
