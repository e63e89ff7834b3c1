//! The state of a PCI bus: the address register of the configuration ports, and each function's configuration space and
//! own state. The thread that saves and restores the guest calls these functions while no vCPU runs.

use serde::{Deserialize, Serialize};

use super::function::SavedFunction;
use super::root::PciRoot;
use super::slot::Slot;
use crate::snapshot::SnapshotError;

/// The state of a PCI bus.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PciState {
    address: u32,
    slots: Vec<Option<SlotState>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SlotState {
    name: String,
    config: Vec<u8>,
    function: SavedFunction,
}

impl PciRoot {
    /// Pauses all functions until [`resume`](Self::resume), and returns the state of the bus.
    ///
    /// # Errors
    /// If a function cannot be saved. Some are paused nevertheless.
    pub fn pause(&self) -> Result<PciState, SnapshotError> {
        let state = self.state.lock();
        let slots = state.slots.iter();
        let pause = |slot: &Option<Slot>| slot.as_ref().map(Slot::pause).transpose();
        Ok(PciState {
            address: state.address,
            slots: slots.map(pause).collect::<Result<_, _>>()?,
        })
    }

    /// Restores the state of a bus with the same functions in the same slots. The functions stay paused.
    ///
    /// # Errors
    /// If the functions are not the same, or one of them refuses its state.
    pub fn restore(&self, saved: &PciState) -> Result<(), SnapshotError> {
        let mut state = self.state.lock();
        state.address = saved.address;
        let (slots, here) = (saved.slots.len(), state.slots.len());
        if slots != here {
            return Err(different(format!(
                "it has {here} slots in use, not {slots}"
            )));
        }
        for (number, (slot, saved)) in state.slots.iter_mut().zip(&saved.slots).enumerate() {
            match (slot, saved) {
                (Some(slot), Some(saved)) if slot.name() == saved.name => {
                    slot.restore_config(&saved.config);
                }
                (None, None) => {}
                (slot, saved) => {
                    let here = slot.as_ref().map_or("nothing", Slot::name);
                    let saved = saved.as_ref().map_or("nothing", |saved| &saved.name);
                    return Err(different(format!("slot {number} has {here}, not {saved}")));
                }
            }
        }
        self.remap_bars(&mut state, |_| {});
        state.copy_all();
        for (slot, saved) in state.slots.iter().zip(&saved.slots) {
            if let (Some(slot), Some(saved)) = (slot, saved) {
                slot.function().restore(&saved.function)?;
            }
        }
        Ok(())
    }

    /// Lets all functions continue after [`pause`](Self::pause) or [`restore`](Self::restore).
    pub fn resume(&self) {
        for slot in self.state.lock().slots.iter().flatten() {
            slot.function().resume();
        }
    }
}

fn different(what: String) -> SnapshotError {
    let device = "PCI bus";
    SnapshotError::Different { device, what }
}

impl Slot {
    fn pause(&self) -> Result<SlotState, SnapshotError> {
        Ok(SlotState {
            name: self.name().to_owned(),
            config: self.emulated_config(),
            function: self.function().pause()?,
        })
    }
}
