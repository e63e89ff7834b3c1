//! The device on the bus of a PC, as its guest reaches it.

use std::mem::discriminant;

use testbed::assigned::Device;

use super::*;
use vmbell::bus::{Bus, BusRange, BusReader};
use vmbell_devices::pci::{Board, CONFIG_PORTS, PciRoot, Window, Windows};

pub const MEMORY: u64 = 0xe000_0000;
pub const RAM: u64 = 0x1000_0000;
pub const GSI: u32 = 17;

/// Offsets in the configuration space of the device.
pub const POWER: usize = 0x40;
pub const MSI: usize = 0x50;
pub const MSIX: usize = 0x70;
/// The BAR with MSI-X's table, the offsets of the table and of the pending bits in it, and the number of vectors.
pub const TABLE_BAR: usize = 2;
pub const TABLE: u64 = 0x2000;
pub const PENDING: u64 = 0x3000;
pub const VECTORS: u16 = 4;

/// A made-up network card: BAR0 memory of 16 KiB, BAR1 ports, BAR2 64-bit memory of 32 KiB with MSI-X, INTA, MSI with
/// two maskable vectors of 64 bits, power management.
pub fn config() -> [u8; CONFIG_SIZE] {
    let mut config = [0; CONFIG_SIZE];
    let mut put = |at: usize, bytes: &[u8]| config[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[0x86, 0x80, 0xd3, 0x10]);
    put(6, &[0x10, 0]);
    put(0x08, &[0x02, 0x00, 0x00, 0x02]);
    put(0x0e, &[0x80]);
    put(0x10, &[0x00]);
    put(0x14, &[0x01]);
    put(0x18, &[0x0c]);
    put(0x2c, &[0x86, 0x80, 0x34, 0x12]);
    put(0x34, &[0x40]);
    put(0x3d, &[1]);
    put(POWER, &[0x01, 0x50, 0x03, 0x00, 0x03, 0x00]);
    put(MSI, &[0x05, 0x70, 0x82, 0x01]);
    put(
        MSIX,
        &[0x11, 0x00, 0x03, 0x00, 0x02, 0x20, 0, 0, 0x02, 0x30, 0, 0],
    );
    config
}

pub fn parts() -> Parts {
    let bar = |size| (size, vec![(0, size)]);
    let none = || (0, Vec::new());
    Parts {
        bars: [bar(0x4000), bar(32), bar(0x8000), none(), none(), none()],
        irqs: [1, 2, VECTORS.into()],
    }
}

pub struct Pc {
    pub function: Arc<AssignedPci>,
    pub device: Arc<Device>,
    pub root: Arc<PciRoot>,
    pub errors: Arc<Mutex<Vec<String>>>,
    pub ports: BusReader,
    pub memory: BusReader,
    _buses: [Arc<Bus>; 2],
}

impl Pc {
    pub fn new() -> Self {
        Self::with(Device::new(config(), &parts()))
    }

    pub fn with(device: Arc<Device>) -> Self {
        Self::try_with(device).unwrap()
    }

    /// A PC with this device; `None` if the device is refused.
    pub fn try_with(device: Arc<Device>) -> Option<Self> {
        let (pio, mmio) = (Arc::new(Bus::new()), Arc::new(Bus::new()));
        let window = |base, len| Window::new(BusRange::new(base, len).unwrap());
        let board = Board {
            reserved: vec![BusRange::new(0, RAM).unwrap()],
            intx: |_, _| Gsi::new(GSI).ok(),
            ..Board::from(Windows {
                io: window(0xc000, 0x4000),
                memory32: window(MEMORY, 0x1000_0000),
                memory64: window(1 << 36, 1 << 38),
            })
        };
        let root = PciRoot::new(&pio, &mmio, board).unwrap();
        let errors = Arc::new(Mutex::new(Vec::new()));
        let function = Arc::new(assign(&device, true, &errors)?.ok()?);
        root.add(Arc::clone(&function) as _).ok()?;
        Some(Self {
            function,
            device,
            root,
            errors,
            ports: pio.reader(),
            memory: mmio.reader(),
            _buses: [pio, mmio],
        })
    }

    fn select(&mut self, register: usize) -> u64 {
        let address = 1 << 31 | 1 << 11 | u32::try_from(register & !3).unwrap();
        self.ports.write(CONFIG_PORTS, &address.to_le_bytes());
        CONFIG_PORTS + 4 + (register as u64 & 3)
    }

    /// Writes registers of configuration space that are inside one dword.
    pub fn write(&mut self, register: usize, data: &[u8]) {
        let port = self.select(register);
        self.ports.write(port, data);
    }

    pub fn read(&mut self, register: usize, len: usize) -> u32 {
        let port = self.select(register);
        let mut data = [0; 4];
        self.ports.read(port, &mut data[..len]);
        u32::from_le_bytes(data)
    }

    pub fn command(&mut self, command: u16) {
        self.write(4, &command.to_le_bytes());
    }

    /// The address of a memory BAR.
    pub fn base(&mut self, bar: usize) -> u64 {
        let low = self.read(0x10 + 4 * bar, 4);
        let high = if bar == TABLE_BAR {
            self.read(0x14 + 4 * bar, 4)
        } else {
            0
        };
        u64::from(high) << 32 | u64::from(low & !0xf)
    }

    /// Sets MSI up: address, data, then the message control register.
    pub fn set_msi(&mut self, data: u16, log: u16, enabled: bool) {
        self.write(MSI + 4, &0xfee0_0000_u32.to_le_bytes());
        self.write(MSI + 12, &data.to_le_bytes());
        self.write(MSI + 2, &(log << 4 | u16::from(enabled)).to_le_bytes());
    }

    pub fn set_msix(&mut self, enabled: bool, masked: bool) {
        let control = u16::from(enabled) << 15 | u16::from(masked) << 14;
        self.write(MSIX + 2, &control.to_le_bytes());
    }

    /// Sets one vector of MSI-X up.
    pub fn set_vector(&mut self, vector: u16, msi: Msi, masked: bool) {
        let at = self.base(TABLE_BAR) + TABLE + 16 * u64::from(vector);
        self.memory.write(at + 12, &1_u32.to_le_bytes());
        self.memory.write(at, &msi.address.to_le_bytes());
        self.memory.write(at + 8, &msi.data.to_le_bytes());
        let control = u32::from(masked);
        self.memory.write(at + 12, &control.to_le_bytes());
    }

    /// Returns each step in which the device's interrupts were wired since the last call.
    pub fn steps(&self) -> Vec<Wired> {
        let wired = |event| match event {
            Event::Wired(wired) => Some(wired),
            _ => None,
        };
        self.device.take().into_iter().filter_map(wired).collect()
    }

    /// Returns the same steps, without those in which a kind is on and gets its messages.
    pub fn wiring(&self) -> Vec<Wired> {
        let mut wiring: Vec<Wired> = Vec::new();
        for step in self.steps() {
            match wiring.last_mut() {
                Some(last) if discriminant(last) == discriminant(&step) => *last = step,
                _ => wiring.push(step),
            }
        }
        wiring
    }
}

/// Assigns the device; `None` if it makes no sense as a device of any kind.
pub fn assign(
    device: &Arc<Device>,
    mmap: bool,
    errors: &Arc<Mutex<Vec<String>>>,
) -> Option<Result<AssignedPci, AssignError>> {
    let errors = Arc::clone(errors);
    let on_error = move |error: AssignedError| errors.lock().push(error.to_string());
    let opened = device.open().ok()?;
    let function = AssignedPci::new(Arc::new(opened), device.guest(), mmap, Box::new(on_error));
    Some(function)
}

pub fn gsi() -> Gsi {
    Gsi::new(GSI).unwrap()
}
