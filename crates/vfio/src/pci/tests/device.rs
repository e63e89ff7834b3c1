//! A device of memory that implements the three traits. It records its calls, and checks their order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::*;
use vmbell_devices::pci::CONFIG_SIZE;

/// What happened to the device, reads left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Config(usize, Vec<u8>),
    Bar(usize, u64, Vec<u8>),
    Map(usize, Area, u64),
    Unmap(usize, Area, u64),
    Intx(Gsi),
    Msi(Vec<Option<Msi>>),
    Msix(Vec<Option<Msi>>),
    Vector(u16, Option<Msi>),
    Disable,
    Reset,
}

/// How the device's interrupts are wired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Wired {
    #[default]
    Nothing,
    Intx(Gsi),
    Msi(Vec<Option<Msi>>),
    Msix(Vec<Option<Msi>>),
}

#[derive(Debug)]
pub struct State {
    pub config: [u8; CONFIG_SIZE],
    pub events: Vec<Event>,
    pub wired: Wired,
    /// What is mapped: the BAR and the length, by the guest's address.
    pub mapped: BTreeMap<u64, (usize, u64)>,
    pub pending: Vec<u16>,
    /// Whether everything that can fail does.
    pub fails: bool,
}

/// The device.
#[derive(Debug)]
pub struct Device(Mutex<State>);

impl Device {
    pub fn new(config: [u8; CONFIG_SIZE]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            config,
            events: Vec::new(),
            wired: Wired::Nothing,
            mapped: BTreeMap::new(),
            pending: Vec::new(),
            fails: false,
        })))
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happened since the last call.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.lock().events)
    }

    fn happen(&self, event: Event, change: impl FnOnce(&mut State)) -> Result<(), Failure> {
        let mut state = self.lock();
        state.events.push(event);
        if state.fails {
            return Err("the device is gone".into());
        }
        change(&mut state);
        Ok(())
    }
}

impl PciAccess for Device {
    fn read_config(&self, offset: usize, data: &mut [u8]) -> Result<(), Failure> {
        let state = self.lock();
        if state.fails {
            return Err("the device is gone".into());
        }
        data.copy_from_slice(&state.config[offset..offset + data.len()]);
        Ok(())
    }

    fn write_config(&self, offset: usize, data: &[u8]) -> Result<(), Failure> {
        self.happen(Event::Config(offset, data.to_vec()), |state| {
            state.config[offset..offset + data.len()].copy_from_slice(data);
        })
    }

    /// Reads as the low byte of the offset, from each BAR.
    fn read_bar(&self, _bar: usize, offset: u64, data: &mut [u8]) -> Result<(), Failure> {
        if self.lock().fails {
            return Err("the device is gone".into());
        }
        data.fill(offset.to_le_bytes()[0]);
        Ok(())
    }

    fn write_bar(&self, bar: usize, offset: u64, data: &[u8]) -> Result<(), Failure> {
        self.happen(Event::Bar(bar, offset, data.to_vec()), |_| {})
    }

    fn reset(&self) -> Result<(), Failure> {
        self.happen(Event::Reset, |state| {
            assert_eq!(state.wired, Wired::Nothing, "reset with interrupts on");
            state.config[4..6].fill(0);
        })
    }
}

impl GuestMapping for Device {
    fn map(&self, bar: usize, area: Area, address: u64) -> Result<(), Failure> {
        self.happen(Event::Map(bar, area, address), |state| {
            assert_ne!(state.config[4] & 2, 0, "mapped without memory decode");
            let before = state.mapped.insert(address, (bar, area.len));
            assert!(before.is_none(), "mapped twice at {address:#x}");
        })
    }

    fn unmap(&self, bar: usize, area: Area, address: u64) -> Result<(), Failure> {
        self.happen(Event::Unmap(bar, area, address), |state| {
            assert_eq!(state.mapped.remove(&address), Some((bar, area.len)));
        })
    }
}

impl InterruptWiring for Device {
    fn set_intx(&self, gsi: Gsi) -> Result<(), Failure> {
        self.happen(Event::Intx(gsi), |state| {
            assert_eq!(state.wired, Wired::Nothing);
            state.wired = Wired::Intx(gsi);
        })
    }

    fn set_msi(&self, messages: &[Option<Msi>]) -> Result<(), Failure> {
        let messages = messages.to_vec();
        self.happen(Event::Msi(messages.clone()), |state| {
            assert!(matches!(state.wired, Wired::Nothing | Wired::Msi(_)));
            state.wired = Wired::Msi(messages);
        })
    }

    fn set_msix(&self, messages: &[Option<Msi>]) -> Result<(), Failure> {
        let messages = messages.to_vec();
        self.happen(Event::Msix(messages.clone()), |state| {
            assert_eq!(state.wired, Wired::Nothing);
            state.wired = Wired::Msix(messages);
        })
    }

    fn set_msix_vector(&self, vector: u16, message: Option<Msi>) -> Result<(), Failure> {
        self.happen(Event::Vector(vector, message), |state| {
            let Wired::Msix(messages) = &mut state.wired else {
                panic!("vector {vector} without msi-x");
            };
            let before = std::mem::replace(&mut messages[usize::from(vector)], message);
            assert_ne!(before, message, "vector {vector} did not change");
        })
    }

    fn disable(&self) -> Result<(), Failure> {
        self.happen(Event::Disable, |state| {
            assert_ne!(state.wired, Wired::Nothing, "off already");
            state.wired = Wired::Nothing;
        })
    }

    fn is_pending(&self, vector: u16) -> Result<bool, Failure> {
        let state = self.lock();
        if state.fails {
            return Err("the device is gone".into());
        }
        Ok(state.pending.contains(&vector))
    }
}
