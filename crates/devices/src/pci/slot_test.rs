use proptest::prelude::*;

use super::*;
use crate::SnapshotError;
use crate::pci::{
    Bar, Board, COMMAND, COMMAND_INTX_DISABLE, CONFIG_SIZE, Capability, CapabilityList, Identity,
    Pin, Registers, Window, Windows,
};
use crate::pci::{FunctionSnapshot, SavedFunction};
use vmbell::irq::Gsi;
use vmbell::sync::Mutex;

const BASE: u64 = 0xe000_0000;
const MSI: u8 = 0x50;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Read(usize, usize),
    Write(usize, Vec<u8>),
    Command(u16, Option<Gsi>),
    Moved(Option<u64>),
    Reset,
}

/// A function with its own registers, which read as their offsets, and two capabilities. It records events.
struct Owner {
    registers: Registers,
    bars: [Option<Bar>; BARS],
    events: Mutex<Vec<Event>>,
}

impl Owner {
    fn push(&self, event: Event) {
        self.events.lock().push(event);
    }

    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock())
    }
}

impl FunctionSnapshot for Owner {
    fn pause(&self) -> Result<SavedFunction, SnapshotError> {
        unreachable!("no test saves it")
    }

    fn restore(&self, _: &SavedFunction) -> Result<(), SnapshotError> {
        unreachable!("no test restores it")
    }
}

impl PciFunction for Owner {
    fn info(&self) -> FunctionInfo {
        FunctionInfo {
            name: "owner",
            identity: Identity {
                vendor: 0x1234,
                device: 0x5678,
                class: 0x0200,
            },
            bars: self.bars,
            registers: self.registers.clone(),
        }
    }

    fn read_config(&self, offset: usize, data: &mut [u8]) {
        for (byte, offset) in data.iter_mut().zip(offset..) {
            *byte = u8::try_from(offset).unwrap();
        }
        self.push(Event::Read(offset, data.len()));
    }

    fn write_config(&self, offset: usize, data: &[u8]) {
        self.push(Event::Write(offset, data.to_vec()));
    }

    fn configured(&self, config: &ConfigSpace, intx: Option<Gsi>) -> OwnRegisters {
        self.push(Event::Command(config.word(COMMAND), intx));
        OwnRegisters::Live
    }

    fn read(&self, _bar: usize, _offset: u64, _data: &mut [u8]) {}

    fn write(&self, _bar: usize, _offset: u64, _data: &[u8]) {}

    fn moved(&self, _bar: usize, base: Option<u64>) {
        self.push(Event::Moved(base));
    }

    fn reset(&self) {
        self.push(Event::Reset);
    }
}

fn registers() -> Registers {
    let mut capabilities = CapabilityList::default();
    let power = Capability {
        id: 0x01,
        registers: Vec::new(),
        writable: Vec::new(),
        own: 0,
    };
    let msi = Capability {
        id: 0x05,
        registers: vec![0x11, 0x22, 0x33, 0x44],
        writable: vec![0x00, 0xff, 0x0f, 0x00],
        own: 0,
    };
    capabilities.add_at(0x80, power).unwrap();
    capabilities.add_at(MSI, msi).unwrap();
    Registers {
        pin: Some(Pin::B),
        capabilities,
        own: true,
    }
}

fn window(base: u64, len: u64) -> Window {
    Window::new(BusRange::new(base, len).unwrap())
}

const fn memory(space: BarSpace) -> Option<Bar> {
    Some(Bar {
        space,
        size: 4096,
        prefetchable: false,
    })
}

fn slot(registers: Registers) -> (Arc<Owner>, Result<Slot, PciError>) {
    let mut bars = [None; BARS];
    bars[0] = memory(BarSpace::Memory32);
    with_bars(registers, bars)
}

fn with_bars(
    registers: Registers,
    bars: [Option<Bar>; BARS],
) -> (Arc<Owner>, Result<Slot, PciError>) {
    let owner = Arc::new(Owner {
        registers,
        bars,
        events: Mutex::default(),
    });
    let function = Arc::clone(&owner) as Arc<dyn PciFunction>;
    let slot = Slot::new(function, 1, &mut board());
    (owner, slot)
}

fn board() -> Board {
    Board::from(Windows {
        io: window(0xc000, 0x100),
        memory32: window(BASE, 0x10_0000),
        memory64: window(1 << 36, 1 << 32),
    })
}

fn read(slot: &Slot, offset: usize, len: usize) -> u32 {
    let mut data = [0; 4];
    slot.read(offset, &mut data[..len]);
    u32::from_le_bytes(data)
}

#[test]
fn own_registers_are_read_from_the_function() {
    let (owner, slot) = slot(registers());
    let slot = slot.unwrap();
    assert_eq!(read(&slot, 0x2c, 4), 0x2f2e_2d2c, "subsystem");
    assert_eq!(read(&slot, 0x08, 4), 0x0b0a_0908, "class and revision");
    assert_eq!(read(&slot, 0xfc, 4), 0xfffe_fdfc);
    let read = |offset, len| Event::Read(offset, len);
    assert_eq!(owner.take(), [read(0x2c, 4), read(8, 4), read(0xfc, 4)]);
}

#[test]
fn emulated_registers_stay_ours() {
    let (owner, slot) = slot(registers());
    let slot = slot.unwrap();
    assert_eq!(read(&slot, 0x00, 4), 0x5678_1234);
    assert_eq!(u64::from(read(&slot, 0x10, 4)), BASE);
    for bar in 1..6 {
        assert_eq!(read(&slot, 0x10 + 4 * bar, 4), 0);
    }
    assert_eq!(read(&slot, 0x30, 4), 0, "no expansion rom");
    assert_eq!(read(&slot, 0x3d, 1), 2, "INTB");
    assert_eq!(owner.take(), []);
    assert_eq!(
        read(&slot, 0x0c, 4),
        0x0f00_0d0c,
        "type 0 with one function"
    );
}

#[test]
fn capability_list_is_ours_and_bodies_may_be_the_functions() {
    let (_, slot) = slot(registers());
    let slot = slot.unwrap();
    assert_eq!(read(&slot, 0x06, 2), 0x0716, "bit 4 of 0x0706 set");
    assert_eq!(read(&slot, 0x34, 1), 0x80);
    assert_eq!(
        read(&slot, 0x80, 4),
        0x8382_0000 | 0x01 | u32::from(MSI) << 8
    );
    assert_eq!(read(&slot, MSI.into(), 4), 0x2211_0005);
    assert_eq!(read(&slot, usize::from(MSI) + 4, 4), 0x5756_4433);

    let (_, bare) = self::slot(Registers {
        capabilities: CapabilityList::default(),
        ..registers()
    });
    let bare = bare.unwrap();
    assert_eq!(read(&bare, 0x06, 2) & 0x10, 0, "no list");
    assert_eq!(read(&bare, 0x34, 1), 0);
}

#[test]
fn capability_registers_take_their_writable_bits() {
    let (owner, slot) = slot(registers());
    let mut slot = slot.unwrap();
    let at = usize::from(MSI);
    slot.write(at, &[0xff; 4]);
    slot.write(at + 4, &[0xff; 4]);
    assert_eq!(read(&slot, at, 4), 0xff11_0005);
    assert_eq!(read(&slot, at + 4, 2), 0x443f);
    let expected = [Event::Write(at + 6, vec![0xff, 0xff])];
    assert_eq!(owner.take(), expected);
}

#[test]
fn write_of_command_and_status_is_split() {
    let (owner, slot) = slot(registers());
    let mut slot = slot.unwrap();
    slot.write(4, &[0x06, 0x04, 0x00, 0xf9]);
    slot.announce_registers();
    slot.announce_registers();
    let expected = [
        Event::Write(6, vec![0x00, 0xf9]),
        Event::Command(0x0406, None),
    ];
    assert_eq!(owner.take(), expected);
}

#[test]
fn intx_disable_needs_a_pin() {
    for pin in [None, Some(Pin::A)] {
        let (_, slot) = slot(Registers {
            pin,
            ..Registers::default()
        });
        let mut slot = slot.unwrap();
        slot.write(COMMAND, &COMMAND_INTX_DISABLE.to_le_bytes());
        let bit = slot.config.word(COMMAND) & COMMAND_INTX_DISABLE;
        assert_eq!(bit != 0, pin.is_some());
    }
}

#[test]
fn function_without_registers_of_its_own_is_not_asked() {
    let (owner, slot) = slot(Registers::default());
    let mut slot = slot.unwrap();
    for offset in (0..CONFIG_SIZE).step_by(4) {
        read(&slot, offset, 4);
        slot.write(offset, &[0; 4]);
    }
    assert_eq!(owner.take(), []);
}

#[test]
fn upper_half_of_a_bar_is_no_bar() {
    for (last, fits) in [(4, true), (5, false)] {
        let mut bars = [None; BARS];
        bars[last] = memory(BarSpace::Memory64);
        assert_eq!(with_bars(registers(), bars).1.is_ok(), fits);
    }
    let mut bars = [None; BARS];
    bars[0] = memory(BarSpace::Memory64);
    bars[1] = memory(BarSpace::Memory32);
    let error = with_bars(registers(), bars).1.unwrap_err();
    assert_eq!(
        error.to_string(),
        "BAR0 of owner has no register for its upper half"
    );
}

mod on_the_bus {
    use super::*;
    use crate::pci::{CONFIG_PORTS, PciRoot};
    use vmbell::bus::BusReader;

    fn select(ports: &mut BusReader, register: u32) {
        let address = 1_u32 << 31 | 1 << 11 | register;
        assert!(ports.write(CONFIG_PORTS, &address.to_le_bytes()));
    }

    fn write(ports: &mut BusReader, register: u32, data: &[u8]) {
        select(ports, register);
        assert!(ports.write(CONFIG_PORTS + 4, data));
    }

    struct Pc {
        root: Arc<PciRoot>,
        owner: Arc<Owner>,
        ports: BusReader,
        memory: BusReader,
        _buses: [Arc<Bus>; 2],
    }

    fn pc(board: Board) -> Pc {
        let (pio, mmio) = (Arc::new(Bus::new()), Arc::new(Bus::new()));
        let root = PciRoot::new(&pio, &mmio, board).unwrap();
        let (owner, _) = slot(registers());
        root.add(Arc::clone(&owner) as Arc<dyn PciFunction>)
            .unwrap();
        Pc {
            root,
            owner,
            ports: pio.reader(),
            memory: mmio.reader(),
            _buses: [pio, mmio],
        }
    }

    #[test]
    fn function_is_told_while_its_moving_bars_are_unmapped() {
        let mut pc = pc(board());
        let (on, off) = (Event::Moved(Some(BASE)), Event::Moved(None));
        assert_eq!(pc.owner.take(), [Event::Command(2, None), on.clone()]);
        write(&mut pc.ports, 4, &[0, 0]);
        assert_eq!(pc.owner.take(), [off, Event::Command(0, None)]);
        write(&mut pc.ports, 4, &[2, 0]);
        assert_eq!(pc.owner.take(), [Event::Command(2, None), on.clone()]);
        write(&mut pc.ports, 4, &[0, 0]);
        pc.owner.take();
        pc.root.reset();
        assert_eq!(pc.owner.take(), [Event::Reset, Event::Command(2, None), on]);
    }

    #[test]
    fn line_register_has_the_gsi_of_the_pin() {
        let gsi = Gsi::new(21).unwrap();
        for (intx, line, raised) in [
            (
                (|slot, pin| (slot == 1 && pin == Pin::B).then(|| Gsi::new(21).unwrap()))
                    as fn(_, _) -> _,
                21,
                Some(gsi),
            ),
            (|_, _| None, 0xff, None),
        ] {
            let mut pc = pc(Board { intx, ..board() });
            assert_eq!(pc.owner.take()[0], Event::Command(2, raised));
            let mut data = [0];
            select(&mut pc.ports, 0x3c);
            assert!(pc.ports.read(CONFIG_PORTS + 4, &mut data));
            assert_eq!(data, [line]);
        }
    }

    #[test]
    fn bar_over_reserved_memory_is_not_mapped_and_said_once() {
        let ram = BusRange::new(0, 0x1000_0000).unwrap();
        let mut pc = pc(Board {
            reserved: vec![ram],
            ..board()
        });
        let said = Arc::new(Mutex::new(Vec::new()));
        let says = Arc::clone(&said);
        pc.root
            .on_conflict(move |conflict| says.lock().push(conflict.to_string()));
        pc.owner.take();
        for base in [0x0fff_f000_u32, 0x5000] {
            write(&mut pc.ports, 0x10, &base.to_le_bytes());
            assert!(!pc.memory.read(base.into(), &mut [0]));
            write(&mut pc.ports, 0x3c, &[0]);
        }
        let moved = |event: &Event| matches!(event, Event::Moved(_));
        let events: Vec<_> = pc.owner.take().into_iter().filter(moved).collect();
        assert_eq!(events, [Event::Moved(None)]);
        assert_eq!(
            *said.lock(),
            [
                "BAR0 of owner at 0xffff000-0xfffffff is over 0x0-0xfffffff, which is not free, and is not mapped"
            ]
        );
        write(&mut pc.ports, 0x10, &0x1000_0000_u32.to_le_bytes());
        assert!(pc.memory.read(0x1000_0000, &mut [0]), "directly after");
    }
}

proptest! {
    /// With any access, the function gets each byte that is not emulated once, in pieces within one dword.
    #[test]
    fn function_gets_the_bytes_that_are_not_emulated(offset in 0_usize..0x100, len in 1_usize..=4) {
        let (owner, slot) = slot(registers());
        let mut slot = slot.unwrap();
        let emulated = |at: usize| {
            matches!(at, 0..=5 | 0x0e | 0x10..=0x27 | 0x30..=0x3d | 0x50..=0x55 | 0x80 | 0x81)
        };
        let expected: Vec<usize> = (offset..(offset + len).min(CONFIG_SIZE))
            .filter(|at| !emulated(*at))
            .collect();
        slot.write(offset, &vec![0; len]);
        read(&slot, offset, len);
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for event in owner.take() {
            let (at, len, bytes) = match event {
                Event::Read(at, len) => (at, len, &mut reads),
                Event::Write(at, data) => (at, data.len(), &mut writes),
                other => panic!("{other:?}"),
            };
            prop_assert_eq!(at / 4, (at + len - 1) / 4);
            bytes.extend(at..at + len);
        }
        prop_assert_eq!(&reads, &expected);
        prop_assert_eq!(&writes, &expected);
    }
}
