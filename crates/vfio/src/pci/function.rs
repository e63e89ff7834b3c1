//! The device as a function of the bus.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use vfio_bindings::bindings::vfio::VFIO_PCI_CONFIG_REGION_INDEX;

use super::error::{AssignError, AssignedError, Attempt, Space};
use super::interrupts::{Interrupts, Mode};
use super::shape::{Meeting, Shape};
use crate::device::Device;
use crate::dma::DmaMap;
use crate::error::{PassthroughError, PassthroughErrorKind};
use crate::interrupt::InterruptPath;
use vmbell::irq::Gsi;
use vmbell::sync::{Mutex, MutexGuard, RwLock};
use vmbell_devices::SnapshotError;
use vmbell_devices::pci::{
    COMMAND, COMMAND_INTX_DISABLE, ConfigSpace, FunctionInfo, FunctionSnapshot, MsixTable,
    OwnRegisters, PciFunction, Routes, SavedFunction, read_pending,
};
use vmbell_hypervisor::AssignedDevices;

/// The offset of the power state in the power management capability, and the bits of the state.
const POWER_STATE: usize = 4;
const POWER_STATE_BITS: u8 = 0b11;

/// A function that is called with the first failure of each kind, on the thread of the vCPU that made the access.
pub type OnError = Box<dyn Fn(AssignedError) + Send + Sync>;

/// The parts of the guest that a device uses.
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

/// A host's device that a guest uses, until the device is given back or this value is dropped.
pub struct AssignedPci {
    shape: Shape,
    on_error: OnError,
    /// The kinds of errors that were reported: the guest could cause one with each access.
    reported: Mutex<HashSet<&'static str>>,
    /// Locked before `open`.
    state: Mutex<FunctionState>,
    /// `None` once the device was given back. An access that the bus still lets through then is an error.
    open: RwLock<Option<Open>>,
}

struct Open {
    guest: GuestParts,
    // Dropped after the guest's memory: the container ends with the device.
    device: Arc<Device>,
}

struct FunctionState {
    /// The command register as the device has it; `None` if that is not known.
    command: Option<u16>,
    interrupts: Interrupts,
    table: Option<MsixTable>,
    mapped: Vec<Mapped>,
    /// Whether BARs are mapped. Once the VMM has to see the accesses, they are never mapped again.
    maps: bool,
}

/// An area of a BAR that is mapped into the guest.
struct Mapped {
    bar: usize,
    area: Range<u64>,
    address: u64,
}

impl AssignedPci {
    /// Reads the device and checks it. Calls `on_error` if something fails later. Without `mmap` no register is
    /// mapped, and every access is an exit.
    pub fn new(
        device: Arc<Device>,
        guest: GuestParts,
        mmap: bool,
        on_error: OnError,
    ) -> Result<Self, AssignError> {
        let shape = Shape::read(&device)?;
        let state = FunctionState {
            command: None,
            interrupts: Interrupts::new(),
            table: shape.msix.map(|msix| MsixTable::new(msix.vectors())),
            mapped: Vec::new(),
            maps: mmap,
        };
        Ok(Self {
            shape,
            on_error,
            reported: Mutex::default(),
            state: Mutex::new(state),
            open: RwLock::new(Some(Open { guest, device })),
        })
    }

    /// Gives the device back, even if a bus still holds the function: the device is masked, reset and closed, with
    /// nothing mapped.
    pub fn give_back(&self) {
        let mut state = self.lock();
        state.interrupts.off();
        // What stays mapped keeps the device open until the guest ends.
        self.unmap(&mut state, |_| true);
        let open = self.open.write().take();
        if let Some(open) = open {
            open.device.quiesce();
        }
    }

    /// What raises INTx in the guest, if INTx is on.
    pub fn intx_path(&self) -> Option<InterruptPath> {
        self.lock().interrupts.intx_path()
    }

    fn lock(&self) -> MutexGuard<'_, FunctionState> {
        self.state.lock()
    }

    /// Calls `act` with the device. Fails if the device was given back.
    fn with<T>(
        &self,
        act: impl FnOnce(&Open) -> Result<T, PassthroughError>,
    ) -> Result<T, PassthroughError> {
        let open = self.open.read();
        act(open.as_ref().ok_or(PassthroughErrorKind::GivenBack)?)
    }

    /// Reports a failure. Returns whether `outcome` is a success.
    fn report(&self, attempt: Attempt, outcome: Result<(), PassthroughError>) -> bool {
        let Err(error) = outcome else { return true };
        let mut reported = self.reported.lock();
        if reported.insert(attempt.kind()) {
            let source = error.kind;
            (self.on_error)(AssignedError { attempt, source });
        }
        false
    }

    /// Reads registers of the device. The guest reads ones if the device does not answer, as on a bus.
    fn read_device(&self, space: Space, offset: u64, data: &mut [u8]) {
        let read = self.with(|open| open.device.read(region(space), offset, data));
        let read = self.accessed(space).and(read);
        let len = data.len();
        if !self.report(Attempt::Read { space, offset, len }, read) {
            data.fill(0xff);
        }
    }

    /// Writes registers of the device. A write that it does not take is lost, as on a bus, where writes to memory are
    /// posted.
    fn write_device(&self, space: Space, offset: u64, data: &[u8]) {
        let written = self.with(|open| open.device.write(region(space), offset, data));
        let written = self.accessed(space).and(written);
        let len = data.len();
        self.report(Attempt::Write { space, offset, len }, written);
    }

    /// Ends an interrupt that the VMM has delivered: its handler has accessed the device.
    fn accessed(&self, space: Space) -> Result<(), PassthroughError> {
        match space {
            Space::Config => Ok(()),
            Space::Bar(_) => self.lock().interrupts.accessed(),
        }
    }

    /// Returns the interrupts that the guest has set up.
    fn wanted(&self, state: &FunctionState, config: &ConfigSpace, intx: Option<Gsi>) -> Mode {
        if let Some(table) = state.table.as_ref().filter(|table| table.is_enabled()) {
            return Mode::Msix(table.messages());
        }
        let msi = self.shape.msi.map(|msi| msi.state(config));
        if let Some(msi) = msi.filter(|msi| msi.enabled) {
            return Mode::Msi(msi.messages);
        }
        let disabled = config.word(COMMAND) & COMMAND_INTX_DISABLE != 0;
        match intx {
            Some(gsi) if !disabled => Mode::Intx(gsi),
            _ => Mode::Off,
        }
    }

    fn write_command(&self, state: &mut FunctionState, command: u16) {
        if state.command == Some(command) {
            return;
        }
        state.command = Some(command);
        let (offset, data) = (COMMAND as u64, command.to_le_bytes());
        let written = self.with(|open| open.device.write(region(Space::Config), offset, &data));
        self.report(Attempt::Command { command }, written);
    }

    /// Changes the interrupts to those that the guest wants.
    fn switch(&self, state: &mut FunctionState, wanted: Mode) {
        let interrupts = wanted.turned();
        let switched = self.with(|open| {
            let Open { guest, device } = open;
            state.interrupts.switch(wanted, device, &guest.routes)
        });
        self.report(Attempt::Interrupts { interrupts }, switched);
        if state.interrupts.needs_accesses() {
            state.maps = false;
            self.unmap(state, |_| true);
        }
    }

    /// Maps the areas of a BAR that can be mapped. The rest of the BAR stays on the bus.
    fn map(&self, state: &mut FunctionState, bar: usize, base: u64) {
        if !state.maps {
            return;
        }
        for area in &self.shape.mapped[bar] {
            let address = base + area.start;
            let mapped = self.with(|open| {
                let region = open.device.region(region(Space::Bar(bar)))?;
                let memory = open.device.memory(region, area);
                Ok(open.guest.backend.map_device_memory(address, &memory)?)
            });
            let area = area.clone();
            let attempt = Attempt::Map {
                bar,
                area: area.clone(),
                address,
            };
            if self.report(attempt, mapped) {
                state.mapped.push(Mapped { bar, area, address });
            }
        }
    }

    /// Unmaps the BARs for which `is_meant` returns true.
    fn unmap(&self, state: &mut FunctionState, is_meant: impl Fn(usize) -> bool) {
        state.mapped.retain(|Mapped { bar, area, address }| {
            if !is_meant(*bar) {
                return true;
            }
            let unmapped =
                self.with(|open| Ok(open.guest.backend.unmap_device_memory(*address)?));
            let attempt = Attempt::Unmap {
                bar: *bar,
                area: area.clone(),
                address: *address,
            };
            !self.report(attempt, unmapped)
        });
    }
}

/// Returns the number of the device's region with these registers.
fn region(space: Space) -> u32 {
    match space {
        Space::Config => VFIO_PCI_CONFIG_REGION_INDEX,
        Space::Bar(bar) => u32::try_from(bar).unwrap_or(u32::MAX),
    }
}

/// Makes the refusal to save or restore the function.
const fn unsaved() -> SnapshotError {
    SnapshotError::Unsaved {
        device: "device of the host",
        reason: "its state is in the hardware",
    }
}

impl FunctionSnapshot for AssignedPci {
    fn pause(&self) -> Result<SavedFunction, SnapshotError> {
        Err(unsaved())
    }

    fn restore(&self, _: &SavedFunction) -> Result<(), SnapshotError> {
        Err(unsaved())
    }
}

impl PciFunction for AssignedPci {
    fn info(&self) -> FunctionInfo {
        FunctionInfo {
            name: "the assigned device",
            identity: self.shape.identity,
            bars: self.shape.bars,
            registers: self.shape.registers.clone(),
        }
    }

    fn read_config(&self, offset: usize, data: &mut [u8]) {
        if self.shape.is_msi_pending(offset) {
            let mut bits = [0; 4];
            let state = self.lock();
            read_pending(0, &mut bits, |vector| {
                state.interrupts.is_msi_pending(vector)
            });
            for (byte, bits) in data.iter_mut().zip(&bits[offset % 4..]) {
                *byte = *bits;
            }
        } else {
            self.read_device(Space::Config, offset as u64, data);
        }
    }

    fn write_config(&self, offset: usize, data: &[u8]) {
        if self.shape.is_msi_pending(offset) {
            return;
        }
        let mut data = data.to_vec();
        // The device stays in D0: in D3 its BARs do not answer, and the host takes their mappings away.
        let power = self.shape.power.map(|at| at + POWER_STATE);
        let state = power.and_then(|power| data.get_mut(power.checked_sub(offset)?));
        if let Some(state) = state {
            *state &= !POWER_STATE_BITS;
        }
        self.write_device(Space::Config, offset as u64, &data);
    }

    fn configured(&self, config: &ConfigSpace, intx: Option<Gsi>) -> OwnRegisters {
        let mut state = self.lock();
        self.write_command(&mut state, config.word(COMMAND));
        if let (Some(msix), Some(table)) = (self.shape.msix, &mut state.table) {
            table.set_control(msix.control(config));
        }
        let wanted = self.wanted(&state, config, intx);
        self.switch(&mut state, wanted);
        OwnRegisters::Live
    }

    fn read(&self, bar: usize, offset: u64, data: &mut [u8]) {
        match self.shape.meet(bar, offset, data.len()) {
            [Meeting::Inside(offset), _] => match &self.lock().table {
                Some(table) => table.read(offset, data),
                None => data.fill(0xff),
            },
            [_, Meeting::Inside(offset)] => {
                let state = self.lock();
                read_pending(offset, data, |vector| {
                    state.interrupts.is_msix_pending(vector)
                });
            }
            [Meeting::Apart, Meeting::Apart] => self.read_device(Space::Bar(bar), offset, data),
            _ => data.fill(0xff),
        }
    }

    fn write(&self, bar: usize, offset: u64, data: &[u8]) {
        match self.shape.meet(bar, offset, data.len()) {
            [Meeting::Inside(offset), _] => {
                let mut state = self.lock();
                let FunctionState {
                    table: Some(table),
                    interrupts,
                    ..
                } = &mut *state
                else {
                    return;
                };
                if let Some(vector) = table.write(offset, data) {
                    let set = interrupts.set_vector(vector, table.message(vector));
                    let interrupts = "a vector of MSI-X on or off";
                    self.report(Attempt::Interrupts { interrupts }, set);
                }
            }
            [Meeting::Apart, Meeting::Apart] => self.write_device(Space::Bar(bar), offset, data),
            _ => {}
        }
    }

    fn moved(&self, bar: usize, base: Option<u64>) {
        let mut state = self.lock();
        match base {
            Some(base) => self.map(&mut state, bar, base),
            None => self.unmap(&mut state, |mapped| mapped == bar),
        }
    }

    fn reset(&self) {
        let mut state = self.lock();
        self.switch(&mut state, Mode::Off);
        let vectors = self.shape.msix.map(|msix| msix.vectors());
        state.table = vectors.map(MsixTable::new);
        // What the reset leaves in the command register is not known.
        state.command = None;
        // A guest that resets its machine can do without a device reset: the host reports devices without a reset.
        let reset = self.with(|open| {
            let device = &open.device;
            if device.can_reset() {
                device.reset()
            } else {
                Ok(())
            }
        });
        self.report(Attempt::Reset, reset);
    }
}

impl Drop for AssignedPci {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl fmt::Debug for AssignedPci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = "AssignedPci";
        f.debug_tuple(name).field(&self.shape.identity).finish()
    }
}
