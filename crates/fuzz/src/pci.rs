//! An assigned PCI device with any configuration space, and a guest that writes anything to it. The device's code never
//! panics, its capabilities stay inside the space, and at most one kind of interrupt is on at a time.

use std::sync::Arc;

use testbed::assigned::{Device, Parts};
use vmbell::bus::{Bus, BusRange};
use vmbell::irq::Gsi;
use vmbell_devices::pci::{
    Board, CONFIG_PORTS, CONFIG_SIZE, PciRoot, Window, Windows, find_capabilities,
};
use vmbell_vfio::pci::AssignedPci;

/// The device's initial configuration space, as offsets and bytes: power management, MSI, and MSI-X in BAR2.
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

/// How many interrupts INTx, MSI and MSI-X have. Each interrupt is a file descriptor of this process.
const IRQS: [u32; 3] = [1, 32, 64];

/// Does one run, as `data` decides.
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
    // The kernel's areas are inside their BAR; other areas are refused.
    let areas = SIZES.map(|size| {
        let mut number = || u64::from(bytes.next().unwrap_or(0)) << 8;
        let offset = number().min(size);
        (offset, number().min(size - offset))
    });
    let bars = std::array::from_fn(|bar| (SIZES[bar], vec![areas[bar]]));
    configure(&Device::new(config, &Parts { bars, irqs: IRQS }), bytes);
}

/// The guest: each four bytes are an access to a register or to the first page of the MSI-X table.
fn configure(device: &Arc<Device>, mut bytes: impl Iterator<Item = u8>) {
    let opened = device.open().expect("regions that make sense");
    let on_error = Box::new(|error| panic!("{error}"));
    let function = AssignedPci::new(Arc::new(opened), device.guest(), true, on_error);
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
