//! An assigned PCI device whose configuration space is anything, and a guest that writes anything to it: no panic, the
//! capabilities are inside the space, and only one kind of interrupts is on at a time.

use std::sync::{Arc, Mutex};

use vmbell::bus::{Bus, BusRange};
use vmbell::irq::{Gsi, Msi};
use vmbell_devices::pci::{
    Board, CONFIG_PORTS, CONFIG_SIZE, PciRoot, Window, Windows, find_capabilities,
};
use vmbell_vfio::pci::{
    Area, AssignedPci, BarInfo, Failure, GuestMapping, InterruptWiring, PciAccess, PciInfo,
};

/// A device to begin with: offset and bytes. It has power management, MSI, and MSI-X in BAR2.
const DEVICE: &[(usize, &[u8])] = &[
    (0x00, &[0x86, 0x80, 0xd3, 0x10, 0, 0, 0x10, 0]),
    (0x14, &[0x01, 0, 0, 0, 0x0c]),
    (0x34, &[0x40]),
    (0x3d, &[1]),
    (0x40, &[0x01, 0x50]),
    (0x50, &[0x05, 0x70, 0x8a, 0x01]),
    (
        0x70,
        &[0x11, 0, 0x03, 0, 0x02, 0x20, 0, 0, 0x02, 0x30, 0, 0],
    ),
];
const SIZES: [u64; 6] = [0x4000, 32, 0x8000, 0, 0, 0];

/// The device: its configuration space, and which interrupts are on.
struct Device(Mutex<([u8; CONFIG_SIZE], Option<&'static str>)>);

impl Device {
    fn turn(&self, from: &[Option<&'static str>], to: Option<&'static str>) -> Result<(), Failure> {
        let mut state = self.0.lock().expect("no panic before");
        assert!(from.contains(&state.1), "{to:?} after {:?}", state.1);
        state.1 = to;
        Ok(())
    }
}

impl PciAccess for Device {
    fn read_config(&self, offset: usize, data: &mut [u8]) -> Result<(), Failure> {
        let state = self.0.lock().expect("no panic before");
        data.copy_from_slice(&state.0[offset..offset + data.len()]);
        Ok(())
    }

    fn write_config(&self, offset: usize, data: &[u8]) -> Result<(), Failure> {
        let mut state = self.0.lock().expect("no panic before");
        state.0[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn read_bar(&self, _bar: usize, _offset: u64, data: &mut [u8]) -> Result<(), Failure> {
        data.fill(0);
        Ok(())
    }

    fn write_bar(&self, _bar: usize, _offset: u64, _data: &[u8]) -> Result<(), Failure> {
        Ok(())
    }

    fn reset(&self) -> Result<(), Failure> {
        Ok(())
    }
}

impl GuestMapping for Device {
    fn map(&self, _bar: usize, area: Area, address: u64) -> Result<(), Failure> {
        assert!(area.len > 0 && area.len.is_multiple_of(4096));
        assert!(address.is_multiple_of(4096));
        Ok(())
    }

    fn unmap(&self, _bar: usize, _area: Area, _address: u64) -> Result<(), Failure> {
        Ok(())
    }
}

impl InterruptWiring for Device {
    fn set_intx(&self, _gsi: Gsi) -> Result<(), Failure> {
        self.turn(&[None], Some("intx"))
    }

    fn set_msi(&self, messages: &[Option<Msi>]) -> Result<(), Failure> {
        assert!((1..=32).contains(&messages.len()));
        self.turn(&[None, Some("msi")], Some("msi"))
    }

    fn set_msix(&self, messages: &[Option<Msi>]) -> Result<(), Failure> {
        assert!((1..=2048).contains(&messages.len()));
        self.turn(&[None], Some("msi-x"))
    }

    fn set_msix_vector(&self, _vector: u16, message: Option<Msi>) -> Result<(), Failure> {
        assert!(message.is_none_or(|message| message.check().is_ok()));
        self.turn(&[Some("msi-x")], Some("msi-x"))
    }

    fn disable(&self) -> Result<(), Failure> {
        self.turn(&[Some("intx"), Some("msi"), Some("msi-x")], None)
    }

    fn is_pending(&self, vector: u16) -> Result<bool, Failure> {
        Ok(vector.is_multiple_of(2))
    }
}

/// One run, as `data` decides.
pub fn fuzz(data: &[u8]) {
    let mut bytes = data.iter().copied();
    let mut config = [0; CONFIG_SIZE];
    for (at, bytes) in DEVICE {
        config[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    for _ in 0..bytes.next().unwrap_or(0) % 32 {
        let (at, byte) = (bytes.next().unwrap_or(0), bytes.next().unwrap_or(0));
        config[usize::from(at)] = byte;
    }
    if let Ok(found) = find_capabilities(&config) {
        assert!(found.len() <= 48);
        for capability in found {
            assert!(capability.at() >= 0x40 && capability.end() <= CONFIG_SIZE);
        }
    }
    let mut info = PciInfo {
        intx: true,
        msi: 32,
        msix: 2048,
        ..PciInfo::default()
    };
    for (bar, size) in info.bars.iter_mut().zip(SIZES) {
        let area = Area {
            offset: u64::from(bytes.next().unwrap_or(0)) << 8,
            len: u64::from(bytes.next().unwrap_or(0)) << 8,
        };
        *bar = BarInfo {
            size,
            mappable: vec![area],
        };
    }
    configure(config, &info, bytes);
}

/// The guest: each four bytes are an access, of a register or of the first page of the table of MSI-X.
fn configure(config: [u8; CONFIG_SIZE], info: &PciInfo, mut bytes: impl Iterator<Item = u8>) {
    let device = Arc::new(Device(Mutex::new((config, None))));
    let on_error = Box::new(|error| panic!("{error}"));
    let function = AssignedPci::new(
        info,
        Arc::clone(&device) as Arc<dyn PciAccess>,
        Arc::clone(&device) as Arc<dyn GuestMapping>,
        device as Arc<dyn InterruptWiring>,
        on_error,
    );
    let Ok(function) = function else { return };
    let (pio, mmio) = (Arc::new(Bus::new()), Arc::new(Bus::new()));
    let range = |base, len| BusRange::new(base, len).expect("a range");
    let window = |base, len| Window::new(range(base, len));
    let board = Board {
        reserved: vec![range(0, 0x1000_0000)],
        intx: |_, _| Gsi::new(16).ok(),
        ..Board::from(Windows {
            io: window(0xc000, 0x4000),
            memory32: window(0xe000_0000, 0x1000_0000),
            memory64: window(1 << 36, 1 << 38),
        })
    };
    let root = PciRoot::new(&pio, &mmio, board).expect("a root");
    if root.add(Arc::new(function)).is_err() {
        return;
    }
    let (mut ports, mut memory) = (pio.reader(), mmio.reader());
    while let Some(act) = bytes.next() {
        let [at, low, high] = [(); 3].map(|()| bytes.next().unwrap_or(0));
        let len = usize::from(act >> 2 & 3) + 1;
        let value = [low, high, low, 0xfe];
        match act & 3 {
            0 if act == 0 => root.reset(),
            0 | 1 => {
                let address = 1_u32 << 31 | 1 << 11 | u32::from(at & !3);
                ports.write(CONFIG_PORTS, &address.to_le_bytes());
                let port = CONFIG_PORTS + 4 + u64::from(at & 3);
                let len = len.min(4 - usize::from(at & 3));
                ports.write(port, &value[..len]);
                ports.read(port, &mut [0; 4][..len]);
            }
            _ => {
                let entry = [
                    0,
                    0,
                    0xe0,
                    0xfe,
                    0,
                    0,
                    0,
                    0,
                    low,
                    high,
                    0,
                    0,
                    act >> 7,
                    0,
                    0,
                    0,
                ];
                let table = (1 << 36) + 0x2000 + u64::from(at);
                memory.write(table, &entry[usize::from(at & 8)..][..8]);
                memory.write(table, &value[..len]);
                memory.read(table, &mut [0; 8][..len]);
                memory.read(table + 0x1000, &mut [0; 8]);
            }
        }
    }
}
