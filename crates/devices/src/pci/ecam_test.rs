use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use vmbell::bus::{Bus, BusRange, BusReader};
use vmbell::irq::Gsi;
use vmbell::sync::Mutex;

use super::*;
use crate::SnapshotError;
use crate::pci::{
    BARS, Board, COMMAND, CONFIG_PORTS, ConfigAccess, ConfigSpace, FunctionInfo, Identity,
    OwnRegisters, PciFunction, PciRoot, Registers, Window, Windows,
};
use crate::pci::{FunctionSnapshot, SavedFunction};

const BASE: u64 = 0xfe00_0000;

/// A bus with only the host bridge in slot 0, and the readers of ports and memory.
struct Pc {
    root: Arc<PciRoot>,
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
        let root = PciRoot::new(&pio, &mmio, board).unwrap();
        Self {
            root,
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

/// A function that answers for its registers itself; they may change at any time.
struct Own {
    registers: Mutex<[u8; CONFIG_SIZE]>,
    is_still: AtomicBool,
}

impl FunctionSnapshot for Own {
    fn pause(&self) -> Result<SavedFunction, SnapshotError> {
        unreachable!("no test saves it")
    }

    fn restore(&self, _: &SavedFunction) -> Result<(), SnapshotError> {
        unreachable!("no test restores it")
    }
}

impl PciFunction for Own {
    fn info(&self) -> FunctionInfo {
        FunctionInfo {
            name: "own",
            identity: Identity {
                vendor: 0x1234,
                device: 1,
                class: 0xff,
            },
            bars: [None; BARS],
            registers: Registers {
                own: true,
                ..Registers::default()
            },
        }
    }

    fn read_config(&self, offset: usize, data: &mut [u8]) {
        data.copy_from_slice(&self.registers.lock()[offset..offset + data.len()]);
    }

    fn configured(&self, _config: &ConfigSpace, _intx: Option<Gsi>) -> OwnRegisters {
        match self.is_still.load(Relaxed) {
            true => OwnRegisters::Still,
            false => OwnRegisters::Live,
        }
    }

    fn write_config(&self, offset: usize, data: &[u8]) {
        self.registers.lock()[offset..offset + data.len()].copy_from_slice(data);
    }

    fn read(&self, _bar: usize, _offset: u64, _data: &mut [u8]) {}

    fn write(&self, _bar: usize, _offset: u64, _data: &[u8]) {}

    fn moved(&self, _bar: usize, _base: Option<u64>) {}

    fn reset(&self) {
        *self.registers.lock() = [0; CONFIG_SIZE];
    }
}

/// A bus with an [`Own`] function in slot 1, and the memory that the guest gets for it.
struct Published {
    pc: Pc,
    own: Arc<Own>,
    memory: Option<DeviceMemory>,
    withdrawn: Arc<AtomicUsize>,
}

impl Published {
    fn new(is_still: bool) -> Self {
        let pc = Pc::new();
        let own = Arc::new(Own {
            registers: Mutex::new([0x5a; CONFIG_SIZE]),
            is_still: is_still.into(),
        });
        assert_eq!(pc.root.add(own.clone()).unwrap(), 1);
        let withdrawn = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&withdrawn);
        let withdraw = move || {
            count.fetch_add(1, Relaxed);
        };
        let memory = pc.root.publish(withdraw).unwrap();
        Self {
            pc,
            own,
            memory,
            withdrawn,
        }
    }

    /// Whether the memory reads as the bus does, in each dword of both functions and of a function that does not exist.
    fn is_equal(&mut self) -> bool {
        let memory = self.memory.as_ref().unwrap();
        let offsets = [0, 1 << 15, 1 << 12].into_iter();
        let mut offsets = offsets.flat_map(|base| (base..base + 0x200).step_by(4));
        offsets.all(|offset| {
            let mut dword = [0; 4];
            memory.file.read_exact_at(&mut dword, offset).unwrap();
            u64::from(u32::from_le_bytes(dword)) == self.pc.read(offset, 4)
        })
    }
}

#[test]
fn memory_is_that_of_the_registers_after_each_write_and_reset() {
    let mut published = Published::new(true);
    let memory = published.memory.as_ref().unwrap();
    assert_eq!((memory.size, memory.writable), (2 << 15, false));
    assert!(published.is_equal());
    let slot_1 = BASE + (1 << 15);
    let writes = [
        (BASE + 4, &[7, 0][..]),
        (slot_1 + 0x40, &[0x66]),
        // Across two dwords, and across the last register.
        (slot_1 + 0x3e, &[1, 2, 3, 4]),
        (slot_1 + 0xfe, &[1, 2, 3, 4]),
        (slot_1 + 4, &[7, 0, 0, 0, 1, 2, 3, 4]),
    ];
    for (address, data) in writes {
        assert!(published.pc.memory.write(address, data));
        assert!(published.is_equal(), "{address:#x}");
    }
    published.pc.root.reset();
    assert!(published.is_equal());
    assert_eq!(published.withdrawn.load(Relaxed), 0);
}

#[test]
fn function_whose_registers_may_change_is_not_in_the_memory() {
    let published = Published::new(false);
    assert_eq!(published.memory.unwrap().size, 1 << 15, "the host bridge");
}

#[test]
fn memory_is_withdrawn_once_when_a_function_begins_to_answer_itself_or_goes() {
    let mut begins = Published::new(true);
    begins.own.is_still.store(false, Relaxed);
    for _ in 0..2 {
        begins.pc.memory.write(BASE + (1 << 15) + 0x40, &[1]);
        assert_eq!(begins.withdrawn.load(Relaxed), 1);
    }
    let goes = Published::new(true);
    assert!(goes.pc.root.remove(1));
    assert_eq!(goes.withdrawn.load(Relaxed), 1);
}
