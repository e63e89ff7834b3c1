//! Configuration mechanism 1: an address at 0xcf8, a window on the register at 0xcfc.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::slot::{Buses, Slot};
use super::{HostBridge, PciError, PciFunction, Windows};
use crate::bus::{Bus, BusDevice, BusRange};

/// Where it answers: eight ports from here.
pub const CONFIG_PORTS: u64 = 0xcf8;
const PORTS: u64 = 8;
/// The data window's offset in them.
const DATA: u64 = 4;

/// Devices on a bus (PCI 3.0, 3.2.2.3.1); each has one function here.
const SLOTS: usize = 32;
const ENABLE: u32 = 1 << 31;

/// The root of the bus, and everything on it.
///
/// Runs on the thread of whichever vCPU configures; a lock makes them take turns. BARs move from
/// inside the write that moves them, so that the next access of any vCPU finds them.
pub struct PciRoot {
    pio: Weak<Bus>,
    mmio: Weak<Bus>,
    state: Mutex<State>,
}

struct State {
    /// What was written to 0xcf8, all bits of it.
    address: u32,
    windows: Windows,
    slots: Vec<Slot>,
}

impl PciRoot {
    /// A bus with its host bridge, on the ports of `pio`.
    pub fn new(pio: &Arc<Bus>, mmio: &Arc<Bus>, windows: Windows) -> Result<Arc<Self>, PciError> {
        let root = Arc::new(Self {
            pio: Arc::downgrade(pio),
            mmio: Arc::downgrade(mmio),
            state: Mutex::new(State {
                address: 0,
                windows,
                slots: Vec::new(),
            }),
        });
        root.add(Arc::new(HostBridge))?;
        let ports = BusRange::new(CONFIG_PORTS, PORTS)?;
        pio.insert(ports, Arc::clone(&root) as Arc<dyn BusDevice>)?;
        Ok(root)
    }

    /// Puts a function into the next slot, with addresses assigned and decoding on.
    pub fn add(&self, function: Arc<dyn PciFunction>) -> Result<(), PciError> {
        let mut state = self.lock();
        let State { windows, slots, .. } = &mut *state;
        if slots.len() >= SLOTS {
            return Err(PciError::NoSlot {
                name: function.name(),
                slots: SLOTS,
            });
        }
        let mut slot = Slot::new(function, windows)?;
        let settled = self.with_buses(|buses| slot.settle(buses));
        slots.push(slot);
        settled.unwrap_or(Ok(()))
    }

    /// Resets every function: registers as the guest found them, no test selected, no doorbell.
    pub fn reset(&self) {
        let mut state = self.lock();
        state.address = 0;
        state.slots.iter_mut().for_each(Slot::reset);
        self.settle(&mut state.slots);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves BARs to where their registers say, first off the bus and then on again, so that two
    /// can change places.
    fn settle(&self, slots: &mut [Slot]) {
        self.with_buses(|buses| {
            slots.iter_mut().for_each(|slot| slot.withdraw(buses));
            for slot in slots {
                // A guest that puts a BAR onto another device has it answer nowhere.
                let _ = slot.settle(buses);
            }
        });
    }

    /// The buses own this device: they are there but for the moment in which they are dropped.
    fn with_buses<T>(&self, act: impl FnOnce(Buses<'_>) -> T) -> Option<T> {
        let (pio, mmio) = (self.pio.upgrade()?, self.mmio.upgrade()?);
        Some(act(Buses {
            pio: &pio,
            mmio: &mmio,
        }))
    }
}

impl State {
    /// The slot and the register that an access to the data window at `offset` means.
    ///
    /// All eight low bits of the address count. The specification has bits 1 and 0 zero and the
    /// byte chosen by the port; kvm-unit-tests writes them and always uses port 0xcfc; so whichever
    /// is there counts, as in hardware that decodes both.
    fn target(&mut self, offset: u64) -> Option<(&mut Slot, usize)> {
        let [register, devfn, bus, _] = self.address.to_le_bytes();
        let (device, function) = (devfn >> 3, devfn & 7);
        if self.address & ENABLE == 0 || bus != 0 || function != 0 {
            return None;
        }
        let slot = self.slots.get_mut(usize::from(device))?;
        let lane = usize::try_from(offset - DATA).ok()?;
        Some((slot, usize::from(register) | lane))
    }
}

impl BusDevice for PciRoot {
    fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0xff);
        let mut state = self.lock();
        if offset >= DATA {
            if let Some((slot, register)) = state.target(offset) {
                slot.config.read(register, data);
            }
        } else if let (0, Ok(data)) = (offset, <&mut [u8; 4]>::try_from(data)) {
            *data = state.address.to_le_bytes();
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let mut state = self.lock();
        if offset >= DATA {
            let Some((slot, register)) = state.target(offset) else {
                return;
            };
            slot.config.write(register, data);
            self.settle(&mut state.slots);
        } else if let (0, Ok(data)) = (offset, <[u8; 4]>::try_from(data)) {
            // Narrower accesses are not for the address register (PCI 3.0, 3.2.2.3.2).
            state.address = u32::from_le_bytes(data);
        }
    }
}

impl fmt::Debug for PciRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.lock().slots).finish()
    }
}

#[cfg(test)]
#[path = "root_test.rs"]
mod tests;
