//! The root of the PCI bus and its configuration ports (mechanism 1, PCI 3.0, 3.2.2.3.2): port 0xcf8 takes the address
//! of a register, port 0xcfc its data. A board may have memory instead of the ports ([`ConfigMemory`]). Slot 0 has the
//! host bridge, which guests look for when they probe for a PCI bus.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::{fmt, io};

use vmbell::bus::{Bus, BusDevice, BusRange};
use vmbell::sync::Mutex;
use vmbell_hypervisor::DeviceMemory;

use super::board::{Board, ConfigAccess};
use super::capability::CONFIG_SIZE;
use super::ecam::{CONFIG_MEMORY_LEN, ConfigPages, ConfigPlace};
use super::error::PciError;
use super::function::{HostBridge, PciFunction};
use super::slot::{Buses, Slot};

/// The first of the root's eight configuration ports.
pub const CONFIG_PORTS: u64 = 0xcf8;
/// How many configuration ports the root has.
pub const CONFIG_PORTS_LEN: u8 = 8;
/// Offset of the data port.
const DATA: u64 = 4;

/// Offset of the reset control register of Intel's PIIX3 (82371SB), a byte among the configuration ports.
const RESET_CONTROL: u64 = 1;
/// Bits of the reset control register: the kind of reset, which is only stored, and the reset itself.
const SYSTEM_RESET: u8 = 1 << 1;
const RESET_CPU: u8 = 1 << 2;

/// Devices on a bus (PCI 3.0, 3.2.2.3.1); each has one function here.
pub const SLOTS: usize = 32;
const ENABLE: u32 = 1 << 31;

/// The root of the bus, with all functions on it.
///
/// Runs on the thread of the vCPU that makes the access, under a lock. A configuration write moves a BAR on the bus
/// before it returns, so that the next access of any vCPU finds the BAR.
pub struct PciRoot {
    pio: Weak<Bus>,
    mmio: Weak<Bus>,
    pub(super) state: Mutex<PciRootState>,
}

type OnConflict = Box<dyn Fn(PciError) + Send + Sync>;

pub(super) struct PciRootState {
    /// The value that was written to port 0xcf8, with all bits.
    pub(super) address: u32,
    board: Board,
    /// The functions by slot; `None` where a function was removed.
    pub(super) slots: Vec<Option<Slot>>,
    /// The memory with the registers of the first slots, and the function that takes this memory away from the guest.
    pages: Option<(ConfigPages, Box<dyn Fn() + Send + Sync>)>,
    /// Called on a conflict of a BAR: the functions for single slots, and the function for all other slots.
    on_conflict_of: BTreeMap<usize, OnConflict>,
    on_conflict: Option<OnConflict>,
    reset_control: Option<ResetControl>,
}

struct ResetControl {
    value: u8,
    reset: Arc<dyn Fn() + Send + Sync>,
}

impl PciRoot {
    /// Creates a PCI bus with its host bridge; the configuration ports are added to `pio`, or the memory to `mmio`.
    pub fn new(pio: &Arc<Bus>, mmio: &Arc<Bus>, board: Board) -> Result<Arc<Self>, PciError> {
        let config = board.config;
        let root = Arc::new(Self {
            pio: Arc::downgrade(pio),
            mmio: Arc::downgrade(mmio),
            state: Mutex::new(PciRootState {
                address: 0,
                board,
                slots: Vec::new(),
                pages: None,
                on_conflict_of: BTreeMap::new(),
                on_conflict: None,
                reset_control: None,
            }),
        });
        root.add(Arc::new(HostBridge))?;
        match config {
            ConfigAccess::Ports => {
                let ports = BusRange::new(CONFIG_PORTS, CONFIG_PORTS_LEN.into())?;
                pio.insert(ports, Arc::clone(&root) as Arc<dyn BusDevice>)?;
            }
            ConfigAccess::Memory(address) => {
                let range = BusRange::new(address, CONFIG_MEMORY_LEN)?;
                mmio.insert(range, Arc::new(ConfigMemory(Arc::clone(&root))))?;
            }
        }
        Ok(root)
    }

    /// Adds a function in the next slot, with addresses assigned and decoding enabled, and returns the slot's number.
    pub fn add(&self, function: Arc<dyn PciFunction>) -> Result<usize, PciError> {
        let mut state = self.state.lock();
        let PciRootState { board, slots, .. } = &mut *state;
        if slots.len() >= SLOTS {
            return Err(PciError::NoSlot {
                name: function.info().name,
                slots: SLOTS,
            });
        }
        let number = slots.len();
        let mut slot = Slot::new(function, number, board)?;
        slot.announce_registers();
        let mut mapped = Ok(());
        self.with_buses(&board.reserved, |buses| {
            slot.map_bars(buses, |conflict| {
                mapped = std::mem::replace(&mut mapped, Ok(())).and(Err(conflict));
            });
        });
        if mapped.is_err() {
            self.with_buses(&board.reserved, |buses| slot.unmap(buses));
        } else {
            slots.push(Some(slot));
        }
        mapped.map(|()| number)
    }

    /// Copies the registers of the first slots into memory that the guest may read without an exit, from the address in
    /// [`ConfigAccess::Memory`] on. The guest's writes must still reach the root. Returns `None` if the registers of no
    /// function can be in memory. Call this before the guest starts, when all functions have been added.
    ///
    /// The memory is kept equal to the registers. When that is no longer possible, `withdraw` is called once: it must
    /// take the memory away from the guest before it returns. The bus is locked during the call.
    ///
    /// # Errors
    /// If the host cannot provide the memory.
    pub fn publish(
        &self,
        withdraw: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Option<DeviceMemory>> {
        let mut state = self.state.lock();
        let still = |slot: &&Option<Slot>| slot.as_ref().is_some_and(Slot::is_still);
        let count = state.slots.iter().take_while(still).count();
        if count == 0 {
            return Ok(None);
        }
        let pages = ConfigPages::new(count)?;
        let memory = pages.device_memory();
        state.pages = Some((pages, Box::new(withdraw)));
        state.copy_all();
        Ok(Some(memory))
    }

    /// Removes the function in a slot while the guest runs, as if it were pulled out: its BARs are unmapped, and its
    /// configuration space reads as ones. Returns whether there was a function. Any thread may call this.
    pub fn remove(&self, slot: usize) -> bool {
        let mut state = self.state.lock();
        let PciRootState { board, slots, .. } = &mut *state;
        let Some(mut removed) = slots.get_mut(slot).and_then(Option::take) else {
            return false;
        };
        self.with_buses(&board.reserved, |buses| removed.unmap(buses));
        let report = state.on_conflict_of.remove(&slot);
        state.withdraw();
        // The function is dropped without the lock.
        drop(state);
        drop((removed, report));
        true
    }

    /// Sets the function that is called if the guest moves a BAR onto another device or onto reserved memory, where the
    /// BAR is not mapped. It is called for the first such conflict of each BAR, on the vCPU's thread, with the bus
    /// locked. A later call replaces the function.
    pub fn on_conflict(&self, report: impl Fn(PciError) + Send + Sync + 'static) {
        self.state.lock().on_conflict = Some(Box::new(report));
    }

    /// Like [`on_conflict`](Self::on_conflict) for the function in one slot, if any: its conflicts go only to `report`.
    pub fn on_conflict_of(&self, slot: usize, report: impl Fn(PciError) + Send + Sync + 'static) {
        let mut state = self.state.lock();
        if state.slots.get(slot).is_some_and(Option::is_some) {
            state.on_conflict_of.insert(slot, Box::new(report));
        }
    }

    /// Gives the machine a reset control register at port 0xcf9: a write of bit 2 calls `reset`, on the vCPU's thread.
    /// Without this call the port does not exist.
    pub fn add_reset_control(&self, reset: impl Fn() + Send + Sync + 'static) {
        self.state.lock().reset_control = Some(ResetControl {
            value: 0,
            reset: Arc::new(reset),
        });
    }

    /// Resets every function: restores the initial registers, deselects tests and removes doorbells.
    pub fn reset(&self) {
        let mut state = self.state.lock();
        state.address = 0;
        if let Some(control) = &mut state.reset_control {
            control.value = 0;
        }
        state.slots.iter_mut().flatten().for_each(Slot::restore);
        self.remap_bars(&mut state, Slot::reset);
        state.copy_all();
    }

    /// Writes registers of the function in a slot, if there is one, and moves its BARs.
    fn write_to(&self, state: &mut PciRootState, place: ConfigPlace, data: &[u8]) {
        let Some(slot) = state.slots.get_mut(place.slot).and_then(Option::as_mut) else {
            return;
        };
        slot.write(place.register, data);
        self.remap_bars(state, |_| {});
        state.copy(place, data.len());
    }

    /// Maps the BARs at the addresses in their registers. All BARs that move are removed before any is added, so that
    /// two can swap addresses. In between, `act` is called for each slot, and the function is told its registers: while
    /// one of its BARs is mapped, the function knows that it decodes.
    pub(super) fn remap_bars(&self, state: &mut PciRootState, act: fn(&Slot)) {
        let PciRootState {
            board,
            slots,
            on_conflict_of,
            on_conflict,
            ..
        } = state;
        self.with_buses(&board.reserved, |buses| {
            slots
                .iter_mut()
                .flatten()
                .for_each(|slot| slot.withdraw(buses));
            for slot in slots.iter_mut().flatten() {
                act(slot);
                slot.announce_registers();
            }
            for (number, slot) in slots.iter_mut().enumerate() {
                let Some(slot) = slot else { continue };
                let report = on_conflict_of.get(&number).or(on_conflict.as_ref());
                slot.map_bars(buses, |conflict| {
                    if let Some(report) = report {
                        report(conflict);
                    }
                });
            }
        });
    }

    /// Calls `act` with the buses, unless they are being dropped. The buses own this device, hence the weak
    /// references.
    fn with_buses(&self, reserved: &[BusRange], act: impl FnOnce(Buses<'_>)) {
        if let (Some(pio), Some(mmio)) = (self.pio.upgrade(), self.mmio.upgrade()) {
            act(Buses {
                pio: &pio,
                mmio: &mmio,
                reserved,
            });
        }
    }
}

impl PciRootState {
    /// Returns the registers that an access to the data port at `offset` selects.
    ///
    /// All eight low bits of the address are used. In the specification bits 1 and 0 are zero, and the port selects the
    /// byte; kvm-unit-tests sets these bits and always uses port 0xcfc. Both ways work here, as on hardware that
    /// decodes both.
    fn target(&self, offset: u64) -> Option<ConfigPlace> {
        let [register, devfn, bus, _] = self.address.to_le_bytes();
        let (device, function) = (devfn >> 3, devfn & 7);
        if self.address & ENABLE == 0 || bus != 0 || function != 0 {
            return None;
        }
        let lane = usize::try_from(offset - DATA).ok()?;
        Some(ConfigPlace {
            slot: device.into(),
            register: usize::from(register) | lane,
        })
    }

    /// After a write to registers, updates their copy in the memory that the guest reads, if there is a copy.
    fn copy(&mut self, place: ConfigPlace, len: usize) {
        let Some((pages, _)) = &self.pages else {
            return;
        };
        let slot = self.slots.get(place.slot).and_then(Option::as_ref);
        match slot {
            _ if place.slot >= pages.slots() => {}
            Some(slot) if slot.is_still() => pages.copy(place, len, |at, to| slot.read(at, to)),
            _ => self.withdraw(),
        }
    }

    pub(super) fn copy_all(&mut self) {
        let slots = self.pages.as_ref().map_or(0, |(pages, _)| pages.slots());
        for slot in 0..slots {
            self.copy(ConfigPlace { slot, register: 0 }, CONFIG_SIZE);
        }
    }

    fn withdraw(&mut self) {
        if let Some((_, withdraw)) = self.pages.take() {
            withdraw();
        }
    }

    /// Reads registers of the function in a slot. An empty slot reads as ones.
    fn read(&self, place: ConfigPlace, data: &mut [u8]) {
        match self.slots.get(place.slot).and_then(Option::as_ref) {
            Some(slot) => slot.read(place.register, data),
            None => data.fill(0xff),
        }
    }
}

impl BusDevice for PciRoot {
    fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0xff);
        let state = self.state.lock();
        if offset >= DATA {
            if let Some(place) = state.target(offset) {
                state.read(place, data);
            }
        } else if let (RESET_CONTROL, [byte], Some(control)) =
            (offset, &mut *data, &state.reset_control)
        {
            *byte = control.value;
        } else if let (0, Ok(data)) = (offset, <&mut [u8; 4]>::try_from(data)) {
            *data = state.address.to_le_bytes();
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let mut state = self.state.lock();
        if offset >= DATA {
            if let Some(place) = state.target(offset) {
                self.write_to(&mut state, place, data);
            }
        } else if let (RESET_CONTROL, [byte], Some(control)) =
            (offset, data, &mut state.reset_control)
        {
            control.value = byte & SYSTEM_RESET;
            if byte & RESET_CPU != 0 {
                let reset = Arc::clone(&control.reset);
                drop(state);
                reset();
            }
        } else if let (0, Ok(data)) = (offset, <[u8; 4]>::try_from(data)) {
            // Narrower accesses do not reach the address register (PCI 3.0, 3.2.2.3.2).
            state.address = u32::from_le_bytes(data);
        }
    }
}

/// The configuration memory of a root's only bus.
#[derive(Debug)]
struct ConfigMemory(Arc<PciRoot>);

impl BusDevice for ConfigMemory {
    fn read(&self, offset: u64, data: &mut [u8]) {
        match ConfigPlace::of_offset(offset) {
            Some(place) => self.0.state.lock().read(place, data),
            None => data.fill(0xff),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        if let Some(place) = ConfigPlace::of_offset(offset) {
            self.0.write_to(&mut self.0.state.lock(), place, data);
        }
    }
}

impl fmt::Debug for PciRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.state.lock().slots).finish()
    }
}

#[cfg(test)]
#[path = "root_test.rs"]
mod tests;
