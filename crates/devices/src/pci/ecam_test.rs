use vmbell::bus::{Bus, BusRange, BusReader};

use super::*;
use crate::pci::{Board, COMMAND, CONFIG_PORTS, ConfigAccess, Window, Windows};

const BASE: u64 = 0xfe00_0000;

/// A bus with the host bridge in slot 0 only, and the readers of ports and memory.
struct Pc {
    ports: BusReader,
    memory: BusReader,
    _buses: [Arc<Bus>; 2],
}

impl Pc {
    fn new() -> Self {
        let (pio, mmio) = (Arc::new(Bus::new()), Arc::new(Bus::new()));
        let window = |base, len| Window::new(BusRange::new(base, len).unwrap());
        let windows = Windows {
            io: window(0xc000, 0x4000),
            memory32: window(0xe000_0000, 0x1000_0000),
            memory64: window(1 << 36, 1 << 38),
        };
        let board = Board {
            config: ConfigAccess::Memory(BASE),
            ..windows.into()
        };
        PciRoot::new(&pio, &mmio, board).unwrap();
        Self {
            ports: pio.reader(),
            memory: mmio.reader(),
            _buses: [pio, mmio],
        }
    }

    fn read(&mut self, offset: u64, len: usize) -> u64 {
        let mut data = [0; 8];
        assert!(self.memory.read(BASE + offset, &mut data[..len]));
        u64::from_le_bytes(data)
    }
}

#[test]
fn address_selects_slot_and_register() {
    let mut pc = Pc::new();
    assert_eq!(pc.read(0, 4), 0x1237_8086);
    assert_eq!(pc.read(2, 2), 0x1237);
    assert_eq!(pc.read(0x0a, 2), 0x0600, "a bridge of a host");
    assert_eq!(pc.read(0, 8) & 0xffff_ffff, 0x1237_8086);
    assert_eq!(pc.read(1 << 15, 4), 0xffff_ffff, "slot 1 is empty");
    assert_eq!(pc.read(CONFIG_MEMORY_LEN - 4, 4), 0xffff_ffff);
}

#[test]
fn registers_and_functions_that_are_not_there_read_as_ones() {
    let mut pc = Pc::new();
    assert_eq!(pc.read(0x100, 4), 0xffff_ffff);
    assert_eq!(pc.read(0xfe, 4), 0xffff_0000);
    assert_eq!(pc.read(1 << 12, 4), 0xffff_ffff, "function 1");
}

#[test]
fn write_reaches_its_register_and_no_other_function() {
    let mut pc = Pc::new();
    let command = u64::try_from(COMMAND).unwrap();
    for other in [1 << 12, 1 << 15, 0x100] {
        assert!(pc.memory.write(BASE + other + command, &[7, 0]));
        assert_eq!(pc.read(command, 2), 0);
    }
    assert!(pc.memory.write(BASE + command, &[7, 0]));
    assert_eq!(pc.read(command, 2), 7);
}

#[test]
fn board_with_memory_has_no_ports() {
    let mut pc = Pc::new();
    assert!(!pc.ports.read(CONFIG_PORTS, &mut [0; 4]));
}
