//! A device whose registers have fixed addresses in the guest: a platform device, or a PCI device of a guest that has
//! no PCI bus.
//!
//! Set-up connects memory, interrupts and registers, in this order, so that the guest never reaches a device whose
//! interrupts have no receiver. Tear-down disconnects interrupts, registers and memory; the device loses the memory
//! once it is quiet. Both may run on any thread; a register that is not mapped is accessed on the vCPU's thread.
//!
//! ```
//! use std::sync::Arc;
//! use vmbell::irq::Gsi;
//! use vmbell_vfio::PassthroughError;
//! use vmbell_vfio::device::Device;
//! use vmbell_vfio::dma::DmaSpace;
//! use vmbell_vfio::placed::{Access, Guest, Handover, Place, Placed, Wire};
//!
//! /// Puts region 0 at an address of the guest, and connects interrupt index 0.
//! fn put(
//!     device: Arc<Device>,
//!     space: Arc<dyn DmaSpace>,
//!     guest: &Guest<'_>,
//!     gsi: Gsi,
//! ) -> Result<Placed, PassthroughError> {
//!     let place = Place { region: 0, address: 0xd000_0000, access: Access::Mapped };
//!     let wire = Wire { index: 0, gsi, handover: Handover::Irqfd };
//!     Placed::new(device, space, guest, &[place], &[wire])
//! }
//! ```

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use super::device::Device;
use super::dma::{DmaMap, DmaSpace};
use super::error::{PassthroughError, PassthroughErrorKind};
use super::interrupt::{InterruptPath, Line};
use vmbell::bus::{Bus, BusDevice, BusRange};
use vmbell::irq::Gsi;
use vmbell::memory::GuestMemoryMmap;
use vmbell::sync::{Mutex, MutexGuard};
use vmbell_hypervisor::{AssignedDevices, DeviceMemory, ForwardedState, Irqs};

/// What a placed device needs from its guest.
#[allow(missing_debug_implementations, reason = "a bundle of borrowed parts")]
pub struct Guest<'g> {
    /// The guest's memory, all of which the device gets.
    pub memory: &'g GuestMemoryMmap,
    /// The bus for registers that are not mapped.
    pub mmio: &'g Arc<Bus>,
    /// The backend's part that maps memory.
    pub backend: Arc<dyn AssignedDevices>,
    /// The backend's part that raises interrupts.
    pub irqs: Arc<dyn Irqs>,
    /// Called if an access of the guest fails.
    pub on_error: OnError,
}

/// A function that is called with the reason why an access of the guest failed, on the thread of the vCPU that made the
/// access. Only the first failures of a read, a write and an interrupt are reported, because the guest could make each
/// access fail. The guest reads ones, and a write has no effect. An interrupt that a thread of the VMM delivers fails
/// if its line cannot be raised, lowered or unmasked ([`Line::accessed`]).
pub type OnError = Arc<dyn Fn(PassthroughError) + Send + Sync>;

/// The place of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The region's index.
    pub region: u32,
    /// The region's guest-physical address.
    pub address: u64,
    /// How the guest reaches the region.
    pub access: Access,
}

/// How a guest reaches a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Without an exit where the region can be mapped. Needs
    /// [`Capability::MovableDeviceMemory`](vmbell_hypervisor::Capability::MovableDeviceMemory).
    Mapped,
    /// Without an exit where the region can be mapped. The guest is created with the mapping ([`device_memory`]), and
    /// keeps the mapping and the open device until it ends.
    MappedFromStart,
    /// Each access exits to the VMM.
    Emulated,
}

/// How an interrupt reaches the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// By irqfd if the backend can, otherwise by a thread of the VMM.
    Irqfd,
    /// Forwarded by the hardware; fails if that is impossible. Needs
    /// [`Capability::ForwardedInterrupts`](vmbell_hypervisor::Capability::ForwardedInterrupts).
    Forwarded,
    /// By a thread of the VMM.
    Vmm,
}

/// An interrupt and its GSI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// The interrupt index.
    pub index: u32,
    /// The GSI, whose route is up to the guest.
    pub gsi: Gsi,
    /// How the interrupt is delivered.
    pub handover: Handover,
}

/// Returns what [`VmConfig::device_memory`](vmbell_hypervisor::VmConfig::device_memory) needs for the places that are
/// [`Access::MappedFromStart`].
pub fn device_memory(
    device: &Device,
    places: &[Place],
) -> Result<Vec<(u64, DeviceMemory)>, PassthroughError> {
    let mut memory = Vec::new();
    for place in places {
        if place.access == Access::MappedFromStart {
            let region = device.region(place.region)?;
            for area in &region.areas {
                memory.push((place.address + area.start, device.memory(region, area)));
            }
        }
    }
    Ok(memory)
}

/// A device in its guest. Dropping it takes the device out: masked, reset, with nothing mapped.
#[derive(Debug)]
pub struct Placed {
    lines: Arc<DeviceLines>,
    failures: Arc<Failures>,
    regions: Vec<PlacedRegion>,
    // Dropped once the device does no more DMA, and before the device's file: the container ends with that file.
    _dma: DmaMap,
    device: Arc<Device>,
}

/// The lines of a device, until it is taken out.
#[derive(Debug, Default)]
struct DeviceLines(Mutex<Vec<Line>>);

impl Placed {
    /// Puts a device into a guest: maps the guest's memory at its own addresses, and connects the wires and places. If
    /// the VMM hands an interrupt on and has to see its end ([`Line::needs_accesses`]), no region is mapped.
    pub fn new(
        device: Arc<Device>,
        space: Arc<dyn DmaSpace>,
        guest: &Guest<'_>,
        places: &[Place],
        wires: &[Wire],
    ) -> Result<Self, PassthroughError> {
        let mut placed = Self {
            _dma: DmaMap::new(space, guest.memory)?,
            lines: Arc::default(),
            failures: Arc::new(Failures::new(&guest.on_error)),
            regions: Vec::new(),
            device,
        };
        for wire in wires {
            let line = placed.connect(guest, wire)?;
            placed.lines.lock().push(line);
        }
        for place in places {
            placed.place(guest, place)?;
        }
        Ok(placed)
    }

    fn connect(&self, guest: &Guest<'_>, wire: &Wire) -> Result<Line, PassthroughError> {
        let Wire { index, gsi, .. } = *wire;
        match wire.handover {
            Handover::Irqfd => Line::connect(&self.device, index, &guest.irqs, gsi),
            Handover::Forwarded => Line::forward(&self.device, index, &*guest.backend, gsi),
            Handover::Vmm => {
                let reason = "it was asked for".to_owned();
                Line::through_vmm(&self.device, index, &guest.irqs, gsi, reason)
            }
        }
    }

    fn place(&mut self, guest: &Guest<'_>, place: &Place) -> Result<(), PassthroughError> {
        let region = self.device.region(place.region)?.clone();
        let is_watched = self.lines.lock().iter().any(Line::needs_accesses);
        if is_watched && place.access == Access::MappedFromStart {
            let region = place.region;
            return Err(self.device.error(PassthroughErrorKind::Watched { region }));
        }
        let range = BusRange::new(place.address, region.size)?;
        let registers = TrappedRegisters {
            device: Arc::downgrade(&self.device),
            region: place.region,
            lines: is_watched.then(|| Arc::clone(&self.lines)),
            failures: Arc::clone(&self.failures),
        };
        guest.mmio.insert(range, Arc::new(registers))?;
        let mut placed = PlacedRegion {
            mmio: Arc::clone(guest.mmio),
            range,
            backend: Arc::clone(&guest.backend),
            mapped: Vec::new(),
        };
        if place.access == Access::Mapped && !is_watched {
            for area in &region.areas {
                let address = place.address + area.start;
                let memory = self.device.memory(&region, area);
                guest.backend.map_device_memory(address, &memory)?;
                placed.mapped.push(address);
            }
        }
        self.regions.push(placed);
        Ok(())
    }

    /// The device.
    pub const fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Returns what each forwarded wire has done, in the order of the wires.
    pub fn forwarded(&self) -> Result<Vec<ForwardedState>, vmbell_hypervisor::Error> {
        self.lines
            .lock()
            .iter()
            .filter_map(Line::forwarded)
            .collect()
    }

    /// Returns how each wire hands its interrupt on, in the order of the wires.
    pub fn paths(&self) -> Vec<InterruptPath> {
        self.lines.lock().iter().map(Line::path).collect()
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        self.lines.lock().clear();
        self.regions.clear();
        // A vCPU that is accessing the device may still hold it.
        self.device.quiesce();
    }
}

impl DeviceLines {
    fn lock(&self) -> MutexGuard<'_, Vec<Line>> {
        self.0.lock()
    }
}

/// A region in its place, until the value is dropped.
struct PlacedRegion {
    mmio: Arc<Bus>,
    range: BusRange,
    backend: Arc<dyn AssignedDevices>,
    mapped: Vec<u64>,
}

impl Drop for PlacedRegion {
    fn drop(&mut self) {
        for address in self.mapped.drain(..) {
            // No caller can receive an error; what stays mapped keeps the device open until the guest ends.
            let _ = self.backend.unmap_device_memory(address);
        }
        let _ = self.mmio.remove(self.range);
    }
}

impl fmt::Debug for PlacedRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlacedRegion")
            .field("range", &self.range)
            .field("mapped", &self.mapped)
            .finish_non_exhaustive()
    }
}

/// A region's registers that are not mapped.
struct TrappedRegisters {
    // Weak, because the bus may hold this after the device was taken out, while a handler runs; the device must be
    // closed by then.
    device: Weak<Device>,
    region: u32,
    /// The lines whose interrupts end with an access to the registers; `None` if the device has no such line.
    lines: Option<Arc<DeviceLines>>,
    failures: Arc<Failures>,
}

impl TrappedRegisters {
    fn accessed(&self) {
        if let Some(lines) = &self.lines {
            let ended = |line: &Line| line.accessed().err();
            let errors: Vec<_> = lines.lock().iter().filter_map(ended).collect();
            // Called without the lock: in its callback, the VMM may take the device out.
            for error in errors {
                self.failures.report(Failed::Interrupt, error);
            }
        }
    }
}

/// What fails in an access.
#[derive(Clone, Copy, Debug)]
enum Failed {
    Read,
    Write,
    /// The end of an interrupt by an access.
    Interrupt,
}

/// Tells the VMM about accesses that fail.
struct Failures {
    on_error: OnError,
    /// Whether each kind was reported, by [`Failed`].
    reported: [AtomicBool; 3],
}

impl Failures {
    fn new(on_error: &OnError) -> Self {
        Self {
            on_error: Arc::clone(on_error),
            reported: Default::default(),
        }
    }

    fn report(&self, failed: Failed, error: PassthroughError) {
        if !self.reported[failed as usize].swap(true, Relaxed) {
            (self.on_error)(error);
        }
    }
}

impl fmt::Debug for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failures")
            .field("reported", &self.reported)
            .finish_non_exhaustive()
    }
}

impl BusDevice for TrappedRegisters {
    fn read(&self, offset: u64, data: &mut [u8]) {
        // What a bus reads where no device answers.
        let ones = |data: &mut [u8]| data.fill(0xff);
        match self.device.upgrade() {
            None => ones(data),
            Some(device) => {
                if let Err(error) = device.read(self.region, offset, data) {
                    ones(data);
                    self.failures.report(Failed::Read, error);
                }
            }
        }
        self.accessed();
    }

    fn write(&self, offset: u64, data: &[u8]) {
        // A write that the device refuses has no effect, as on a bus.
        if let Some(device) = self.device.upgrade()
            && let Err(error) = device.write(self.region, offset, data)
        {
            self.failures.report(Failed::Write, error);
        }
        self.accessed();
    }
}
