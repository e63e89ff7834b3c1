//! A machine with the device, and a guest's access to it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use vmbell::bus::{Backlog, Bus, BusRange, BusReader};
use vmbell::doorbell::{Bell, IoEventAddress};
use vmbell_devices::pci::{
    CONFIG_PORTS, CONFIG_SIZE, PciFunction, PciRoot, Routes, Window, Windows,
};
use vmbell_devices::virtio::pci::GuestParts;
use vmbell_devices::virtio::{Notify, Raise, VirtioConfig};
use vmbell_virtqueue::Features;

use super::backend::{Doorbells, Interrupts};
use super::host::{Host, Kind};
use crate::input::{self, Input, Memory};

/// Where the bus puts the BAR, and the offsets of the structures in it.
const BASE: u64 = 0xe000_0000;
const NOTIFY: u64 = 0x3000;
const TABLE: u64 = 0x4000;
/// The offset of the registers in the memory of configuration space.
const REGISTERS: u64 = 1 << 15;
/// The capability for accesses to the BAR through configuration space, and the control register of MSI-X.
const WINDOW: u8 = 0x84;
const MSIX_CONTROL: u8 = 0x9a;

/// Registers of the common configuration.
const DRIVER_FEATURE_SELECT: u64 = 8;
const DRIVER_FEATURE: u64 = 12;
const STATUS: u64 = 20;
const QUEUE_SELECT: u64 = 22;
const QUEUE_SIZE: u64 = 24;
const QUEUE_VECTOR: u64 = 26;
const QUEUE_ENABLE: u64 = 28;
const QUEUE_ADDRESSES: [u64; 3] = [32, 40, 48];

/// The number of bytes for the rings of one queue, and the end of both queues' rings.
const PLACE: u64 = 0x400;
pub const QUEUES_END: u64 = 2 * PLACE;

/// The driver's choices.
pub struct Choice {
    /// The queue that the driver uses.
    pub queue: u16,
    pub size: u16,
    pub packed: bool,
    pub features: Features,
    /// Whether the driver's notifications contain its position, if the device offers that.
    says_position: bool,
    /// Features of this type of device.
    own: u16,
}

impl Choice {
    /// A valid choice.
    pub fn sound(queue: u16) -> Self {
        Self {
            queue,
            size: 8,
            packed: false,
            features: Features::default(),
            says_position: false,
            own: 0,
        }
    }

    pub fn any(input: &mut Input<'_>) -> Self {
        let (features, choice) = (input.features(), input.byte());
        Self {
            queue: u16::from(choice & 1),
            size: 1 << (choice >> 1 & 3),
            packed: choice & 8 != 0,
            features,
            says_position: choice & 32 != 0,
            // Rarely includes features that were not offered.
            own: if choice >> 4 == 0 { input.word() } else { 0 },
        }
    }

    pub fn base(&self) -> u64 {
        PLACE * u64::from(self.queue)
    }

    /// Both halves of the feature bits.
    fn halves(&self) -> [u64; 2] {
        let Features {
            indirect,
            event_idx,
            in_order,
            ..
        } = self.features;
        let low = u64::from(self.own) | u64::from(indirect) << 28 | u64::from(event_idx) << 29;
        let high = 1 | u64::from(self.packed) << 2 | u64::from(in_order) << 3;
        [low, high]
    }
}

pub struct Machine {
    pub memory: Memory,
    pub root: Arc<PciRoot>,
    pub backlog: Backlog,
    doorbells: Arc<Doorbells>,
    bell: Option<Bell>,
    /// Whether the driver has chosen `VIRTIO_F_NOTIFICATION_DATA`.
    says_position: bool,
    notified: u16,
    /// Configuration space as memory, and whether it was withdrawn.
    config: Arc<File>,
    withdrawn: Arc<AtomicBool>,
    ports: BusReader,
    mmio: BusReader,
    _buses: [Arc<Bus>; 2],
}

impl Machine {
    /// Makes a machine with a device, and the device's host side.
    pub fn new(kind: Kind, choice: u8) -> (Self, Host) {
        let memory = input::memory();
        let doorbells = Arc::new(Doorbells::default());
        let backlog = Backlog::default();
        let guest = GuestParts {
            memory: (*memory).clone(),
            events: Arc::clone(&doorbells) as _,
            routes: Routes::new(Arc::new(Interrupts), Vec::new()),
            backlog: backlog.clone(),
            on_error: Arc::new(|error| panic!("{error}")),
        };
        let config = VirtioConfig {
            // Mostly on this thread, so that the same input has the same effect.
            notify: if choice & 6 == 6 {
                Notify::Doorbell
            } else {
                Notify::Exit
            },
            raise: if choice & 8 == 0 {
                Raise::Irqfd
            } else {
                Raise::Call
            },
            notify_ports: choice & 1 != 0,
            packed: choice & 16 != 0,
            notification_data: choice & 6 == 6,
        };
        let (device, host) = Host::new(kind, config, guest);
        let (pio, mmio) = (Arc::new(Bus::new()), Arc::new(Bus::new()));
        let window = |base, len| Window::new(BusRange::new(base, len).unwrap());
        let windows = Windows {
            io: window(0xc000, 0x4000),
            memory32: window(BASE, 0x1000_0000),
            memory64: window(1 << 36, 1 << 38),
        };
        let root = PciRoot::new(&pio, &mmio, windows.into()).unwrap();
        root.add(Arc::new(device) as Arc<dyn PciFunction>).unwrap();
        let withdrawn = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&withdrawn);
        let published = root.publish(move || flag.store(true, Relaxed)).unwrap();
        let machine = Self {
            config: published.unwrap().file,
            withdrawn,
            memory,
            root,
            backlog,
            bell: (config.notify == Notify::Doorbell).then(|| doorbells.bell()),
            doorbells,
            says_position: false,
            notified: 0,
            ports: pio.reader(),
            mmio: mmio.reader(),
            _buses: [pio, mmio],
        };
        (machine, host)
    }

    fn store(&mut self, at: u64, data: &[u8]) {
        let address = BASE + at;
        if let Ok(value) = data.try_into() {
            self.doorbells.store(u32::from_le_bytes(value));
        }
        let bell = self.bell.as_mut();
        if !bell.is_some_and(|bell| bell.ring(IoEventAddress::Mmio(address), data)) {
            self.mmio.write(address, data);
        }
    }

    fn set(&mut self, field: u64, len: usize, value: u64) {
        self.store(field, &value.to_le_bytes()[..len]);
    }

    /// Notifies a queue. The driver's position is right if all notifications so far were of this queue.
    pub fn notify(&mut self, queue: u16) {
        let at = NOTIFY + 4 * u64::from(queue);
        if self.says_position {
            self.notified = self.notified.wrapping_add(1);
            let data = u64::from(self.notified) << 16 | u64::from(queue);
            self.set(at, 4, data);
        } else {
            self.set(at, 2, queue.into());
        }
    }

    /// Writes to the BAR, and reads from it.
    pub fn access(&mut self, at: u64, width: u8, value: u64) {
        let len = usize::from(width % 8) + 1;
        self.set(at, len, value);
        self.mmio.read(BASE + at, &mut [0; 8][..len]);
    }

    /// Writes to configuration space, and reads from it.
    pub fn configure(&mut self, at: u8, width: u8, value: u16) {
        let address = 1_u32 << 31 | 1 << 11 | u32::from(at & !3);
        self.ports.write(CONFIG_PORTS, &address.to_le_bytes());
        let port = CONFIG_PORTS + 4 + u64::from(at & 3);
        let len = (usize::from(width % 4) + 1).min(4 - usize::from(at & 3));
        let [low, high] = value.to_le_bytes();
        self.ports.write(port, &[low, high, low, high][..len]);
        self.ports.read(port, &mut [0; 4][..len]);
        self.check_config();
    }

    /// Makes the data register in configuration space access bytes of the BAR.
    pub fn open_window(&mut self, at: u8, len: u8) {
        self.configure(WINDOW + 8, 1, u16::from(at) << 2);
        self.configure(WINDOW + 12, 1, 1 << (len % 3));
    }

    /// Checks that configuration space as memory, while it exists, reads the same as through the ports.
    fn check_config(&mut self) {
        if self.withdrawn.load(Relaxed) {
            return;
        }
        let mut memory = [0; CONFIG_SIZE];
        self.config.read_exact_at(&mut memory, REGISTERS).unwrap();
        for (at, expected) in (0..).step_by(4).zip(memory.chunks(4)) {
            let address = 1_u32 << 31 | 1 << 11 | at;
            self.ports.write(CONFIG_PORTS, &address.to_le_bytes());
            let mut dword = [0; 4];
            self.ports.read(CONFIG_PORTS + 4, &mut dword);
            assert_eq!(dword, expected, "{at:#x}");
        }
    }

    /// Gives an MSI-X vector a message, valid or not, and enables MSI-X, or masks it.
    pub fn program_vector(&mut self, vector: u8, data: u8) {
        let entry = TABLE + 16 * u64::from(vector % 4);
        let address = if vector < 0xf0 { 0xfee0_0000 } else { 0x1000 };
        for (at, word) in [
            (0, address),
            (4, 0),
            (8, data.into()),
            (12, data as u64 >> 7),
        ] {
            self.set(entry + at, 4, word);
        }
        self.configure(MSIX_CONTROL, 1, 0x8000 | u16::from(vector & 0x40) << 8);
    }

    /// Does what a driver does before its first request. Each queue has its own place.
    pub fn set_up(&mut self, choice: &Choice, places: [u64; 3]) {
        for status in [0, 1, 3] {
            self.set(STATUS, 1, status);
        }
        self.says_position = choice.says_position && self.bell.is_some();
        let data = u64::from(self.says_position) << 6;
        let [low, high] = choice.halves();
        for (select, half) in (0..).zip([low, high | data]) {
            self.set(DRIVER_FEATURE_SELECT, 4, select);
            self.set(DRIVER_FEATURE, 4, half);
        }
        self.set(STATUS, 1, 11);
        self.set(QUEUE_SELECT, 2, choice.queue.into());
        self.set(QUEUE_SIZE, 2, choice.size.into());
        self.set(QUEUE_VECTOR, 2, choice.queue.into());
        for (field, place) in QUEUE_ADDRESSES.into_iter().zip(places) {
            self.set(field, 8, place);
        }
        self.set(QUEUE_ENABLE, 2, 1);
        self.set(STATUS, 1, 15);
    }
}
