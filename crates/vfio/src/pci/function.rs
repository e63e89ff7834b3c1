//! The device as a function of the bus.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::areas::Area;
use super::interrupts::{Interrupts, Mode};
use super::shape::Shape;
use super::{
    AssignError, AssignedError, Failure, GuestMapping, InterruptWiring, PciAccess, PciInfo, Space,
};
use vmbell::irq::Gsi;
use vmbell_devices::pci::{
    BarPart, COMMAND, COMMAND_INTX_DISABLE, ConfigSpace, FunctionInfo, MsixTable, OwnRegisters,
    PciFunction, read_pending,
};

/// Where in the capability for power management the power state is, and its bits.
const POWER_STATE: usize = 4;
const POWER_STATE_BITS: u8 = 0b11;

/// A function that is called with what failed, the first time of each kind, on the thread of the vCPU whose access it
/// was.
pub type OnError = Box<dyn Fn(AssignedError) + Send + Sync>;

/// A host's device that a guest uses.
///
/// Dropping it unmaps its BARs from the guest and turns its interrupts off. The owner of its [`PciAccess`] resets it.
pub struct AssignedPci {
    shape: Shape,
    access: Arc<dyn PciAccess>,
    mapping: Arc<dyn GuestMapping>,
    on_error: OnError,
    /// The kinds of errors that were reported: the guest could cause one with each access.
    reported: Mutex<HashSet<&'static str>>,
    state: Mutex<FunctionState>,
}

struct FunctionState {
    /// The command register as the device has it; `None` if that is not known.
    command: Option<u16>,
    interrupts: Interrupts,
    table: Option<MsixTable>,
    /// What is mapped into the guest: BAR, area and address.
    mapped: Vec<(usize, Area, u64)>,
}

/// How an access and a part of a BAR meet.
enum Meeting {
    /// They do not.
    Apart,
    /// The access is inside the part, at this offset.
    Inside(u64),
    /// A part of the access is outside.
    Across,
}

impl AssignedPci {
    /// Reads the device and checks it. Calls `on_error` if something fails later.
    pub fn new(
        info: &PciInfo,
        access: Arc<dyn PciAccess>,
        mapping: Arc<dyn GuestMapping>,
        vectors: Arc<dyn InterruptWiring>,
        on_error: OnError,
    ) -> Result<Self, AssignError> {
        let shape = Shape::read(info, &*access)?;
        let state = Mutex::new(FunctionState {
            command: None,
            interrupts: Interrupts::new(vectors),
            table: shape.msix.map(|msix| MsixTable::new(msix.vectors())),
            mapped: Vec::new(),
        });
        Ok(Self {
            shape,
            access,
            mapping,
            on_error,
            reported: Mutex::default(),
            state,
        })
    }

    fn lock(&self) -> MutexGuard<'_, FunctionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(&self, outcome: Result<(), AssignedError>) {
        if let Err(error) = outcome {
            let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
            if reported.insert(error.kind()) {
                (self.on_error)(error);
            }
        }
    }

    /// What the guest reads: ones if the device does not answer, as a bus has them.
    fn read_done(&self, read: Result<(), Failure>, space: Space, offset: u64, data: &mut [u8]) {
        if let Err(source) = read {
            data.fill(0xff);
            let len = data.len();
            self.report(Err(AssignedError::Read {
                space,
                offset,
                len,
                source,
            }));
        }
    }

    /// A write that the device does not take is lost, as on a bus, where writes to memory are posted.
    fn write_done(&self, written: Result<(), Failure>, space: Space, offset: u64, len: usize) {
        self.report(written.map_err(|source| AssignedError::Write {
            space,
            offset,
            len,
            source,
        }));
    }

    /// A pending bit. One that cannot be found out reads as 1: an interrupt that the guest looks for in vain does no harm.
    fn pending(&self, pending: Result<bool, AssignedError>) -> bool {
        pending.unwrap_or_else(|error| {
            self.report(Err(error));
            true
        })
    }

    /// The interrupts that the guest has set up.
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
        let written = self.access.write_config(COMMAND, &command.to_le_bytes());
        self.report(written.map_err(|source| AssignedError::Command { command, source }));
    }

    /// Maps what can be mapped of a BAR. What cannot stays on the bus.
    fn map(&self, state: &mut FunctionState, bar: usize, base: u64) {
        for &area in &self.shape.mapped[bar] {
            let address = base + area.offset;
            match self.mapping.map(bar, area, address) {
                Ok(()) => state.mapped.push((bar, area, address)),
                Err(source) => self.report(Err(AssignedError::Map {
                    bar,
                    area,
                    address,
                    source,
                })),
            }
        }
    }

    /// Unmaps the BARs that `is_meant` says.
    fn unmap(&self, state: &mut FunctionState, is_meant: impl Fn(usize) -> bool) {
        for (bar, area, address) in state.mapped.extract_if(.., |(bar, ..)| is_meant(*bar)) {
            let unmapped = self.mapping.unmap(bar, area, address);
            self.report(unmapped.map_err(|source| AssignedError::Unmap {
                bar,
                area,
                address,
                source,
            }));
        }
    }

    /// How an access meets the table of MSI-X and its pending bits.
    fn meet(&self, bar: usize, offset: u64, len: usize) -> [Meeting; 2] {
        let parts = self.shape.msix.map(|msix| [msix.table(), msix.pending()]);
        parts.map_or([Meeting::Apart, Meeting::Apart], |parts| {
            parts.map(|part| meet(part, bar, offset, len))
        })
    }

    /// Whether an access of configuration space, which is inside one dword, is to MSI's pending bits.
    fn is_msi_pending(&self, offset: usize) -> bool {
        let pending = self.shape.msi.and_then(|msi| msi.pending());
        pending.is_some_and(|pending| pending == offset & !3)
    }
}

fn meet(part: BarPart, bar: usize, offset: u64, len: usize) -> Meeting {
    let end = offset.saturating_add(len as u64);
    let part_end = part.offset + part.len;
    if part.bar != bar || end <= part.offset || part_end <= offset {
        Meeting::Apart
    } else if part.offset <= offset && end <= part_end {
        Meeting::Inside(offset - part.offset)
    } else {
        Meeting::Across
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
        if self.is_msi_pending(offset) {
            let mut bits = [0; 4];
            let state = self.lock();
            read_pending(0, &mut bits, |vector| {
                self.pending(state.interrupts.is_msi_pending(vector))
            });
            for (byte, bits) in data.iter_mut().zip(&bits[offset % 4..]) {
                *byte = *bits;
            }
        } else {
            let read = self.access.read_config(offset, data);
            self.read_done(read, Space::Config, offset as u64, data);
        }
    }

    fn write_config(&self, offset: usize, data: &[u8]) {
        if self.is_msi_pending(offset) {
            return;
        }
        let mut data = data.to_vec();
        // The device stays in D0: in D3 its BARs do not answer, and the host takes their mappings away.
        let power = self.shape.power.map(|at| at + POWER_STATE);
        let state = power.and_then(|power| data.get_mut(power.checked_sub(offset)?));
        if let Some(state) = state {
            *state &= !POWER_STATE_BITS;
        }
        let written = self.access.write_config(offset, &data);
        self.write_done(written, Space::Config, offset as u64, data.len());
    }

    fn configured(&self, config: &ConfigSpace, intx: Option<Gsi>) -> OwnRegisters {
        let mut state = self.lock();
        self.write_command(&mut state, config.word(COMMAND));
        if let (Some(msix), Some(table)) = (self.shape.msix, &mut state.table) {
            table.set_control(msix.control(config));
        }
        let wanted = self.wanted(&state, config, intx);
        self.report(state.interrupts.switch(wanted));
        OwnRegisters::Live
    }

    fn read(&self, bar: usize, offset: u64, data: &mut [u8]) {
        match self.meet(bar, offset, data.len()) {
            [Meeting::Inside(offset), _] => match &self.lock().table {
                Some(table) => table.read(offset, data),
                None => data.fill(0xff),
            },
            [_, Meeting::Inside(offset)] => {
                let state = self.lock();
                read_pending(offset, data, |vector| {
                    self.pending(state.interrupts.is_msix_pending(vector))
                });
            }
            [Meeting::Apart, Meeting::Apart] => {
                let read = self.access.read_bar(bar, offset, data);
                self.read_done(read, Space::Bar(bar), offset, data);
            }
            _ => data.fill(0xff),
        }
    }

    fn write(&self, bar: usize, offset: u64, data: &[u8]) {
        match self.meet(bar, offset, data.len()) {
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
                    self.report(interrupts.set_vector(vector, table.message(vector)));
                }
            }
            [Meeting::Apart, Meeting::Apart] => {
                let written = self.access.write_bar(bar, offset, data);
                self.write_done(written, Space::Bar(bar), offset, data.len());
            }
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
        self.report(state.interrupts.switch(Mode::Off));
        let vectors = self.shape.msix.map(|msix| msix.vectors());
        state.table = vectors.map(MsixTable::new);
        // What the reset leaves in the command register is not known.
        state.command = None;
        let reset = self.access.reset();
        self.report(reset.map_err(|source| AssignedError::Reset { source }));
    }
}

impl Drop for AssignedPci {
    fn drop(&mut self) {
        let mut state = self.lock();
        self.unmap(&mut state, |_| true);
        self.report(state.interrupts.switch(Mode::Off));
    }
}

impl fmt::Debug for AssignedPci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = "AssignedPci";
        f.debug_tuple(name).field(&self.shape.identity).finish()
    }
}
