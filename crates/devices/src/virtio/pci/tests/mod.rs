//! The device on a PCI bus with doorbells and messages in this process, and a driver that consists of single accesses.

mod doorbells;
mod hostile;
mod layout;
mod messages;
mod model;
mod notification_data;
mod packed;
mod panics;
mod reset;
mod snapshots;
mod source;
mod window;
mod wires;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use vm_memory::GuestAddress;

use self::wires::Wires;
use super::*;
use crate::pci::{CONFIG_PORTS, PciFunction, PciRoot, Window, Windows};
use crate::registry_double::Registry;
use crate::virtio::{Handler, Inverter, Notify, Raise, VirtioConfig, VirtioDevice};
use vmbell::bus::{Bus, BusRange, BusReader};
use vmbell::doorbell::{Bell, IoEventAddress};
use vmbell::irq::Msi;
use vmbell::sync::Mutex;
use vmbell_virtqueue::SplitLayout;

const RAM: usize = 0x1_0000;
/// Where the bus puts the BAR, and the structures in it.
const BASE: u64 = 0xe000_0000;
/// Where the bus puts the BAR with notifications at ports.
const PORTS: u64 = 0xc000;
const ISR: u64 = BASE + 0x1000;
const NOTIFY: u64 = BASE + 0x3000;
const TABLE: u64 = BASE + 0x4000;
const PENDING: u64 = BASE + 0x5000;
/// The IDs of capabilities, and the type of the vendor-specific capability that reaches the BAR through configuration
/// space.
const VENDOR: u64 = 0x09;
const MSIX: u64 = 0x11;
const TYPE_WINDOW: u64 = 5;

const DEVICE_FEATURE_SELECT: u64 = 0;
const DEVICE_FEATURE: u64 = 4;
const DRIVER_FEATURE_SELECT: u64 = 8;
const DRIVER_FEATURE: u64 = 12;
const CONFIG_VECTOR: u64 = 16;
const STATUS: u64 = 20;
const QUEUE_SELECT: u64 = 22;
const QUEUE_SIZE: u64 = 24;
const QUEUE_VECTOR: u64 = 26;
const QUEUE_ENABLE: u64 = 28;
const QUEUE_NOTIFY_OFF: u64 = 30;
const QUEUE_ADDRESSES: [u64; 3] = [32, 40, 48];

const FEATURES_OK: u64 = 11;
const DRIVER_OK: u64 = 15;
const NEEDS_RESET: u64 = 64;
const QUEUES: u16 = 2;

/// The message that the tests choose for a vector.
fn message(vector: u8) -> Msi {
    Msi::fixed(0, 0x40 + vector)
}

/// A machine with one device, and a guest's access to it.
struct Pc {
    memory: GuestMemoryMmap,
    registry: Arc<Registry>,
    wires: Arc<Wires>,
    root: Arc<PciRoot>,
    bell: Bell,
    backlog: Backlog,
    ports: BusReader,
    mmio: BusReader,
    errors: Arc<AtomicUsize>,
    _buses: [Arc<Bus>; 2],
}

impl Pc {
    fn new(config: VirtioConfig) -> Self {
        Self::with(Inverter, QUEUES, config)
    }

    /// Creates a machine without doorbells, so that the service is over when an access returns.
    fn plain() -> Self {
        Self::new(VirtioConfig {
            notify: Notify::Exit,
            ..VirtioConfig::default()
        })
    }

    fn with<D: Handler + 'static>(handler: D, queues: u16, config: VirtioConfig) -> Self {
        let device = VirtioDevice::new(handler, queues, config);
        Self::of(|guest| VirtioPci::new(device, guest).unwrap())
    }

    fn of(device: impl FnOnce(GuestParts) -> VirtioPci) -> Self {
        Self::on(Registry::default(), device)
    }

    /// Creates a machine on a backend with this registry.
    fn on(registry: Registry, device: impl FnOnce(GuestParts) -> VirtioPci) -> Self {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), RAM)]).unwrap();
        let (registry, wires) = (Arc::new(registry), Arc::new(Wires::default()));
        let (backlog, errors) = (Backlog::default(), Arc::new(AtomicUsize::new(0)));
        let theirs = Arc::clone(&errors);
        let guest = GuestParts {
            memory: memory.clone(),
            events: Arc::clone(&registry) as _,
            routes: Routes::new(Arc::clone(&wires) as _, Vec::new()),
            backlog: backlog.clone(),
            on_error: Arc::new(move |_| {
                theirs.fetch_add(1, Ordering::Relaxed);
            }),
        };
        let device = device(guest);
        let (pio, mmio) = (Arc::new(Bus::new()), Arc::new(Bus::new()));
        let window = |base, len| Window::new(BusRange::new(base, len).unwrap());
        let windows = Windows {
            io: window(0xc000, 0x4000),
            memory32: window(BASE, 0x1000_0000),
            memory64: window(1 << 36, 1 << 38),
        };
        let root = PciRoot::new(&pio, &mmio, windows.into()).unwrap();
        root.add(Arc::new(device) as Arc<dyn PciFunction>).unwrap();
        Self {
            memory,
            bell: registry.bell(),
            registry,
            wires,
            root,
            backlog,
            ports: pio.reader(),
            mmio: mmio.reader(),
            errors,
            _buses: [pio, mmio],
        }
    }

    /// A store of `len` bytes to a doorbell, or otherwise to the device. Returns whether it rang a doorbell.
    fn store(&mut self, address: u64, len: usize, value: u64) -> bool {
        let data = &value.to_le_bytes()[..len];
        self.registry.store(IoEventAddress::Mmio(address), data);
        if self.bell.ring(IoEventAddress::Mmio(address), data) {
            return true;
        }
        self.mmio.write(address, data);
        false
    }

    /// A write of `len` bytes to a port, which is otherwise like [`store`](Self::store).
    fn out(&mut self, port: u64, len: usize, value: u64) -> bool {
        let data = &value.to_le_bytes()[..len];
        let place = IoEventAddress::Pio(port.try_into().unwrap());
        self.registry.store(place, data);
        if self.bell.ring(place, data) {
            return true;
        }
        self.ports.write(port, data);
        false
    }

    fn load(&mut self, address: u64, len: usize) -> u64 {
        let mut data = [0; 8];
        assert!(self.mmio.read(address, &mut data[..len]), "{address:#x}");
        u64::from_le_bytes(data)
    }

    /// Writes a field of the common configuration.
    fn set(&mut self, field: u64, len: usize, value: u64) {
        self.store(BASE + field, len, value);
    }

    fn get(&mut self, field: u64, len: usize) -> u64 {
        self.load(BASE + field, len)
    }

    fn select(&mut self, register: u64) -> u64 {
        let address = 1 << 31 | 1 << 11 | u32::try_from(register & !3).unwrap();
        self.ports.write(CONFIG_PORTS, &address.to_le_bytes());
        CONFIG_PORTS + 4 + register % 4
    }

    fn configure(&mut self, register: u64, len: usize, value: u64) {
        let port = self.select(register);
        self.ports.write(port, &value.to_le_bytes()[..len]);
    }

    /// The IDs and the offsets of the capabilities.
    fn capabilities(&mut self) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let mut next = self.config(0x34, 1);
        while next != 0 {
            found.push((self.config(next, 1), next));
            next = self.config(next + 1, 1);
        }
        found
    }

    fn msix(&mut self) -> u64 {
        let found = self.capabilities();
        found.iter().find(|(id, _)| *id == MSIX).unwrap().1
    }

    /// The capability through which configuration space reaches the BAR.
    fn window(&mut self) -> u64 {
        let mut found = self.capabilities().into_iter();
        let is_window = |(id, at): &_| *id == VENDOR && self.config(at + 3, 1) == TYPE_WINDOW;
        found.find(is_window).unwrap().1
    }

    fn config(&mut self, register: u64, len: usize) -> u64 {
        let port = self.select(register);
        let mut data = [0; 8];
        assert!(self.ports.read(port, &mut data[..len]));
        u64::from_le_bytes(data)
    }

    /// Negotiates up to FEATURES_OK.
    fn negotiate(&mut self) {
        self.negotiate_with(1);
    }

    /// Like [`negotiate`](Self::negotiate), with a different upper half of the features.
    fn negotiate_with(&mut self, upper: u64) {
        for status in [0, 1, 3] {
            self.set(STATUS, 1, status);
        }
        self.set(DRIVER_FEATURE_SELECT, 4, 1);
        self.set(DRIVER_FEATURE, 4, upper);
        self.set(STATUS, 1, FEATURES_OK);
        assert_eq!(self.get(STATUS, 1), FEATURES_OK);
    }

    /// Describes a queue with a vector and enables it; returns whether it is enabled.
    fn set_up(&mut self, queue: u16, layout: &SplitLayout, vector: u16) -> bool {
        self.set(QUEUE_SELECT, 2, queue.into());
        self.set(QUEUE_SIZE, 2, layout.size.into());
        self.set(QUEUE_VECTOR, 2, vector.into());
        let parts = [layout.descriptors, layout.avail, layout.used];
        for (field, address) in QUEUE_ADDRESSES.into_iter().zip(parts) {
            self.set(field, 4, address & 0xffff_ffff);
            self.set(field + 4, 4, address >> 32);
        }
        self.set(QUEUE_ENABLE, 2, 1);
        self.get(QUEUE_ENABLE, 2) == 1
    }

    fn go_live(&mut self) {
        self.set(STATUS, 1, DRIVER_OK);
        assert_eq!(self.get(STATUS, 1), DRIVER_OK);
    }

    /// Turns MSI-X and the mask of all vectors on or off.
    fn set_msix(&mut self, on: bool, masked: bool) {
        let control = u64::from(on) << 15 | u64::from(masked) << 14;
        let msix = self.msix();
        self.configure(msix + 2, 2, control);
    }

    /// Writes a vector's entry of the table.
    fn set_vector(&mut self, vector: u8, masked: bool) {
        let Msi { address, data, .. } = message(vector);
        let entry = TABLE + 16 * u64::from(vector);
        let words = [address, 0, data.into(), masked.into()];
        for (at, word) in (entry..).step_by(4).zip(words) {
            self.store(at, 4, word);
        }
    }

    fn errors(&self) -> usize {
        self.errors.load(Ordering::Relaxed)
    }
}
