//! A PCI device of VFIO for the three traits of [`AssignedPci`](super::AssignedPci): its registers, its memory in
//! the guest, and its interrupts. Called on the threads of vCPUs, and on the thread that takes the device out of the
//! guest.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use vfio_bindings::bindings::vfio::{
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_INTX_IRQ_INDEX, VFIO_PCI_MSI_IRQ_INDEX,
    VFIO_PCI_MSIX_IRQ_INDEX,
};

use super::{Area, BarInfo, Failure, GuestMapping, InterruptWiring, PciAccess, PciInfo};
use crate::device::Device;
use crate::dma::DmaMap;
use crate::interrupt::{self, InterruptPath, Line};
use vmbell::irq::{Gsi, Msi};
use vmbell_devices::pci::Routes;
use vmbell_hypervisor::AssignedDevices;

/// What a device in a guest has to do with the rest of the guest.
#[derive(Clone)]
#[allow(missing_debug_implementations, reason = "trait objects have no text")]
pub struct GuestParts {
    /// The backend, which maps memory.
    pub backend: Arc<dyn AssignedDevices>,
    /// The guest's interrupts and their routes.
    pub routes: Arc<Routes>,
    /// The guest's memory, mapped for the device.
    pub dma: Arc<DmaMap>,
}

/// A PCI device of VFIO in a guest, until it is given back or this is dropped.
#[derive(Debug)]
pub struct VfioPci {
    /// `None` once the device was given back. An access that the bus still allows then is an error.
    open: RwLock<Option<Open>>,
}

/// The device while it is open. Dropping it gives the device back: masked, reset, with nothing mapped.
struct Open {
    interrupts: Mutex<EnabledInterrupts>,
    mapped: Mutex<Mapped>,
    mmap: bool,
    guest: GuestParts,
    // After the guest's memory: its container ends with it.
    device: Arc<Device>,
}

/// The device was given back.
#[derive(Debug, thiserror::Error)]
#[error("the device was given back to the host")]
struct Gone;

/// The kind of interrupts that is on.
#[derive(Debug, Default)]
enum EnabledInterrupts {
    #[default]
    Off,
    Intx(Line),
    Msi(interrupt::Vectors),
    Msix(interrupt::Vectors),
}

/// What of the device is mapped in the guest.
#[derive(Debug, Default)]
struct Mapped {
    addresses: Vec<u64>,
    /// Nothing is mapped from now on, because the VMM has to see the accesses.
    watched: bool,
}

impl VfioPci {
    /// The device for a guest. Without `mmap` no register is mapped, and every access is an exit.
    pub fn new(device: Arc<Device>, guest: GuestParts, mmap: bool) -> Self {
        let open = Open {
            interrupts: Mutex::default(),
            mapped: Mutex::default(),
            mmap,
            guest,
            device,
        };
        Self {
            open: RwLock::new(Some(open)),
        }
    }

    /// Gives the device back, though a bus may still hold this: masked, reset, closed, with nothing mapped.
    pub fn give_back(&self) {
        let open = self
            .open
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(open);
    }

    /// Does something with the device, if it was not given back.
    fn with<T>(&self, act: impl FnOnce(&Open) -> Result<T, Failure>) -> Result<T, Failure> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        act(open.as_ref().ok_or(Gone)?)
    }

    /// What is known of the device in addition to its configuration space; empty if it was given back.
    pub fn info(&self) -> PciInfo {
        self.with(|open| Ok(open.info())).unwrap_or_default()
    }

    /// What raises INTx in the guest, if INTx is on.
    pub fn intx_path(&self) -> Option<InterruptPath> {
        let path = self.with(|open| Ok(open.intx_path()));
        path.unwrap_or_default()
    }
}

impl Open {
    fn info(&self) -> PciInfo {
        let mut info = PciInfo {
            intx: self.interrupts_of(VFIO_PCI_INTX_IRQ_INDEX) > 0,
            msi: self.interrupts_of(VFIO_PCI_MSI_IRQ_INDEX),
            msix: self.interrupts_of(VFIO_PCI_MSIX_IRQ_INDEX),
            ..PciInfo::default()
        };
        for (bar, region) in info.bars.iter_mut().zip(self.device.regions()) {
            let area = |area: &std::ops::Range<u64>| Area {
                offset: area.start,
                len: area.end - area.start,
            };
            *bar = BarInfo {
                size: region.size,
                mappable: region.areas.iter().map(area).collect(),
            };
        }
        info
    }

    fn interrupts_of(&self, index: u32) -> u32 {
        self.device.irq(index).map_or(0, |irq| irq.count)
    }

    fn intx_path(&self) -> Option<InterruptPath> {
        match &*self.interrupts() {
            EnabledInterrupts::Intx(line) => Some(line.path()),
            _ => None,
        }
    }

    fn interrupts(&self) -> MutexGuard<'_, EnabledInterrupts> {
        self.interrupts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn mapped(&self) -> MutexGuard<'_, Mapped> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Unmaps all, now and for good: the VMM has to see the accesses.
    fn watch(&self) -> Result<(), Failure> {
        let mut mapped = self.mapped();
        mapped.watched = true;
        let mut outcome = Ok(());
        mapped.addresses.retain(|address| {
            let unmapped = self.guest.backend.unmap_device_memory(*address);
            let stays = unmapped.is_err();
            outcome = std::mem::replace(&mut outcome, Ok(())).and(unmapped);
            stays
        });
        Ok(outcome?)
    }

    /// Ends an interrupt that the VMM has handed on.
    fn accessed(&self) -> Result<(), Failure> {
        if !self.mapped().watched {
            return Ok(());
        }
        match &*self.interrupts() {
            EnabledInterrupts::Intx(line) => Ok(line.accessed()?),
            _ => Ok(()),
        }
    }

    /// The vectors of an index, which is enabled with this number of vectors if it was not.
    fn enabled(&self, index: u32, messages: &[Option<Msi>]) -> Result<interrupt::Vectors, Failure> {
        let count = u32::try_from(messages.len())?;
        let mut vectors =
            interrupt::Vectors::enable(&self.device, index, count, &self.guest.routes)?;
        set_all(&mut vectors, messages)?;
        Ok(vectors)
    }
}

fn set_all(vectors: &mut interrupt::Vectors, messages: &[Option<Msi>]) -> Result<(), Failure> {
    for (vector, message) in messages.iter().enumerate() {
        vectors.set(vector, *message)?;
    }
    Ok(())
}

impl PciAccess for VfioPci {
    fn read_config(&self, offset: usize, data: &mut [u8]) -> Result<(), Failure> {
        self.with(|open| open.read_config(offset, data))
    }

    fn write_config(&self, offset: usize, data: &[u8]) -> Result<(), Failure> {
        self.with(|open| open.write_config(offset, data))
    }

    fn read_bar(&self, bar: usize, offset: u64, data: &mut [u8]) -> Result<(), Failure> {
        self.with(|open| open.read_bar(bar, offset, data))
    }

    fn write_bar(&self, bar: usize, offset: u64, data: &[u8]) -> Result<(), Failure> {
        self.with(|open| open.write_bar(bar, offset, data))
    }

    fn reset(&self) -> Result<(), Failure> {
        self.with(PciAccess::reset)
    }
}

impl GuestMapping for VfioPci {
    fn map(&self, bar: usize, area: Area, address: u64) -> Result<(), Failure> {
        self.with(|open| open.map(bar, area, address))
    }

    fn unmap(&self, bar: usize, area: Area, address: u64) -> Result<(), Failure> {
        // Nothing of a device that was given back is mapped.
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref()
            .map_or(Ok(()), |open| open.unmap(bar, area, address))
    }
}

impl InterruptWiring for VfioPci {
    fn set_intx(&self, gsi: Gsi) -> Result<(), Failure> {
        self.with(|open| open.set_intx(gsi))
    }

    fn set_msi(&self, messages: &[Option<Msi>]) -> Result<(), Failure> {
        self.with(|open| open.set_msi(messages))
    }

    fn set_msix(&self, messages: &[Option<Msi>]) -> Result<(), Failure> {
        self.with(|open| open.set_msix(messages))
    }

    fn set_msix_vector(&self, vector: u16, message: Option<Msi>) -> Result<(), Failure> {
        self.with(|open| open.set_msix_vector(vector, message))
    }

    fn disable(&self) -> Result<(), Failure> {
        // Interrupts of a device that was given back are off.
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map_or(Ok(()), InterruptWiring::disable)
    }

    fn is_pending(&self, vector: u16) -> Result<bool, Failure> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref()
            .map_or(Ok(false), |open| open.is_pending(vector))
    }
}

impl PciAccess for Open {
    fn read_config(&self, offset: usize, data: &mut [u8]) -> Result<(), Failure> {
        let region = VFIO_PCI_CONFIG_REGION_INDEX;
        Ok(self.device.read(region, offset as u64, data)?)
    }

    fn write_config(&self, offset: usize, data: &[u8]) -> Result<(), Failure> {
        let region = VFIO_PCI_CONFIG_REGION_INDEX;
        Ok(self.device.write(region, offset as u64, data)?)
    }

    fn read_bar(&self, bar: usize, offset: u64, data: &mut [u8]) -> Result<(), Failure> {
        let read = self.device.read(u32::try_from(bar)?, offset, data);
        self.accessed()?;
        Ok(read?)
    }

    fn write_bar(&self, bar: usize, offset: u64, data: &[u8]) -> Result<(), Failure> {
        let written = self.device.write(u32::try_from(bar)?, offset, data);
        self.accessed()?;
        Ok(written?)
    }

    fn reset(&self) -> Result<(), Failure> {
        // A guest that resets its machine can do without: the host says of such a device that it has no reset.
        if self.device.can_reset() {
            self.device.reset()?;
        }
        Ok(())
    }
}

impl GuestMapping for Open {
    fn map(&self, bar: usize, area: Area, address: u64) -> Result<(), Failure> {
        let mut mapped = self.mapped();
        if mapped.watched || !self.mmap {
            return Ok(());
        }
        let region = self.device.region(u32::try_from(bar)?)?;
        let memory = self
            .device
            .memory(region, &(area.offset..area.offset + area.len));
        self.guest.backend.map_device_memory(address, &memory)?;
        mapped.addresses.push(address);
        Ok(())
    }

    fn unmap(&self, _bar: usize, _area: Area, address: u64) -> Result<(), Failure> {
        let mut mapped = self.mapped();
        let found = mapped.addresses.iter().position(|at| *at == address);
        if let Some(index) = found {
            self.guest.backend.unmap_device_memory(address)?;
            mapped.addresses.swap_remove(index);
        }
        Ok(())
    }
}

impl InterruptWiring for Open {
    fn set_intx(&self, gsi: Gsi) -> Result<(), Failure> {
        let index = VFIO_PCI_INTX_IRQ_INDEX;
        let line = Line::connect(&self.device, index, self.guest.routes.irqs(), gsi)?;
        let needs_accesses = line.needs_accesses();
        *self.interrupts() = EnabledInterrupts::Intx(line);
        if needs_accesses {
            self.watch()?;
        }
        Ok(())
    }

    fn set_msi(&self, messages: &[Option<Msi>]) -> Result<(), Failure> {
        let mut interrupts = self.interrupts();
        if let EnabledInterrupts::Msi(vectors) = &mut *interrupts
            && vectors.count() == messages.len()
        {
            return set_all(vectors, messages);
        }
        // The host has one kind on at a time, and a number of vectors only from the start.
        *interrupts = EnabledInterrupts::Off;
        *interrupts = EnabledInterrupts::Msi(self.enabled(VFIO_PCI_MSI_IRQ_INDEX, messages)?);
        Ok(())
    }

    fn set_msix(&self, messages: &[Option<Msi>]) -> Result<(), Failure> {
        let mut interrupts = self.interrupts();
        *interrupts = EnabledInterrupts::Off;
        *interrupts = EnabledInterrupts::Msix(self.enabled(VFIO_PCI_MSIX_IRQ_INDEX, messages)?);
        Ok(())
    }

    fn set_msix_vector(&self, vector: u16, message: Option<Msi>) -> Result<(), Failure> {
        match &mut *self.interrupts() {
            EnabledInterrupts::Msix(vectors) => Ok(vectors.set(vector.into(), message)?),
            _ => Ok(()),
        }
    }

    fn disable(&self) -> Result<(), Failure> {
        *self.interrupts() = EnabledInterrupts::Off;
        Ok(())
    }

    fn is_pending(&self, vector: u16) -> Result<bool, Failure> {
        match &*self.interrupts() {
            EnabledInterrupts::Msi(vectors) | EnabledInterrupts::Msix(vectors) => {
                Ok(vectors.is_pending(vector.into())?)
            }
            _ => Ok(false),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        *self.interrupts() = EnabledInterrupts::Off;
        // No caller can receive an error; what stays mapped keeps the device open until the guest ends.
        let _ = self.watch();
        self.device.quiesce();
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open")
            .field("device", &self.device)
            .field("interrupts", &self.interrupts)
            .field("mapped", &self.mapped)
            .finish_non_exhaustive()
    }
}
