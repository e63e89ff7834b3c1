//! The device with real doorbells in this process, and a guest that consists of single accesses.

mod doorbells;
mod model;
mod reading;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::pci::{CONFIG_PORTS, PciRoot, Window, Windows};
use crate::registry_double::Registry;
use vmbell::bus::{Bus, BusRange, BusReader};
use vmbell::doorbell::{Bell, IoEventAddress};

const MEMORY: u64 = 0xe000_0000;
const PORTS: u64 = 0xc000;

const TEST: u64 = 0;
const WIDTH: u64 = 1;
const COUNT: u64 = 12;
const NAME: u64 = 16;

/// A machine with one pci-testdev in slot 1, and a guest's access to it.
struct Pc {
    registry: Arc<Registry>,
    root: Arc<PciRoot>,
    bell: Bell,
    ports: BusReader,
    memory: BusReader,
    errors: Arc<AtomicUsize>,
    _buses: [Arc<Bus>; 2],
}

impl Pc {
    fn new(config: PciTestdevConfig) -> Self {
        Self::with(config, Registry::default())
    }

    fn with(config: PciTestdevConfig, registry: Registry) -> Self {
        let (registry, errors) = (Arc::new(registry), Arc::new(AtomicUsize::new(0)));
        let theirs = Arc::clone(&errors);
        let on_error = Box::new(move |_| {
            theirs.fetch_add(1, Ordering::Relaxed);
        });
        let events = Arc::clone(&registry) as Arc<dyn IoEvents>;
        let device = PciTestdev::new(config, events, on_error).unwrap();
        let (pio, mmio) = (Arc::new(Bus::new()), Arc::new(Bus::new()));
        let window = |base, len| Window::new(BusRange::new(base, len).unwrap());
        let windows = Windows {
            io: window(PORTS, 0x4000),
            memory32: window(MEMORY, 0x1000_0000),
            memory64: window(1 << 36, 1 << 38),
        };
        let root = PciRoot::new(&pio, &mmio, windows.into()).unwrap();
        root.add(Arc::new(device)).unwrap();
        Self {
            bell: registry.bell(),
            registry,
            root,
            ports: pio.reader(),
            memory: mmio.reader(),
            errors,
            _buses: [pio, mmio],
        }
    }

    fn plain() -> Self {
        Self::new(PciTestdevConfig::default())
    }

    fn pv() -> Self {
        Self::new(PciTestdevConfig {
            pv: true,
            ..PciTestdevConfig::default()
        })
    }

    /// A store to a doorbell, or otherwise to a device. Returns whether it rang a doorbell.
    fn store(&mut self, address: u64, data: &[u8]) -> bool {
        let rang = self.bell.ring(IoEventAddress::Mmio(address), data);
        if !rang {
            self.memory.write(address, data);
        }
        rang
    }

    fn out(&mut self, port: u64, data: &[u8]) -> bool {
        let rang = self
            .bell
            .ring(IoEventAddress::Pio(port.try_into().unwrap()), data);
        if !rang {
            self.ports.write(port, data);
        }
        rang
    }

    fn load(&mut self, address: u64, len: usize) -> u64 {
        let mut data = [0; 8];
        self.memory.read(address, &mut data[..len]);
        u64::from_le_bytes(data)
    }

    fn input(&mut self, port: u64, len: usize) -> u64 {
        let mut data = [0; 8];
        self.ports.read(port, &mut data[..len]);
        u64::from_le_bytes(data)
    }

    /// The name in the header, as kvm-unit-tests reads it.
    fn name(&mut self) -> String {
        (NAME..)
            .map(|at| u8::try_from(self.load(MEMORY + at, 1)).unwrap())
            .take_while(|byte| *byte != 0)
            .map(char::from)
            .collect()
    }

    fn count(&mut self) -> u64 {
        self.load(MEMORY + COUNT, 4)
    }

    fn doorbells(&self) -> usize {
        self.registry.registered()
    }

    /// Writes to BAR `bar` of the device.
    fn set_bar(&mut self, bar: u32, value: u32) {
        self.config(0x10 + 4 * bar, &value.to_le_bytes());
    }

    fn config(&mut self, register: u32, data: &[u8]) {
        let address = 1 << 31 | 1 << 11 | register;
        self.ports.write(CONFIG_PORTS, &u32::to_le_bytes(address));
        self.ports.write(CONFIG_PORTS + 4, data);
    }
}
