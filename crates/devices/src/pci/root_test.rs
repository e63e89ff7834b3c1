use proptest::prelude::*;
use vmbell::bus::BusReader;
use vmbell::sync::Mutex;

use super::*;
use crate::SnapshotError;
use crate::pci::{BARS, Bar, BarSpace, FunctionInfo, Identity, Registers, Window, Windows};
use crate::pci::{FunctionSnapshot, SavedFunction};

const PORTS: u64 = 0xc000;
const MEMORY: u64 = 0xe000_0000;

/// A function whose two BARs read as its number. It remembers their addresses.
struct Dummy {
    number: u8,
    at: Mutex<[Option<u64>; 2]>,
}

impl Dummy {
    fn new(number: u8) -> Arc<Self> {
        let at = Mutex::default();
        Arc::new(Self { number, at })
    }
}

impl FunctionSnapshot for Dummy {
    fn pause(&self) -> Result<SavedFunction, SnapshotError> {
        unreachable!("no test saves it")
    }

    fn restore(&self, _: &SavedFunction) -> Result<(), SnapshotError> {
        unreachable!("no test restores it")
    }
}

impl PciFunction for Dummy {
    fn info(&self) -> FunctionInfo {
        let mut bars = [None; BARS];
        bars[0] = Some(Bar {
            space: BarSpace::Memory32,
            size: 4096,
            prefetchable: false,
        });
        bars[1] = Some(Bar {
            space: BarSpace::Io,
            size: 256,
            prefetchable: false,
        });
        FunctionInfo {
            name: "dummy",
            identity: Identity {
                vendor: 0x1234,
                device: self.number.into(),
                class: 0xff,
            },
            bars,
            registers: Registers::default(),
        }
    }

    fn read(&self, _bar: usize, _offset: u64, data: &mut [u8]) {
        data.fill(self.number);
    }

    fn write(&self, _bar: usize, _offset: u64, _data: &[u8]) {}

    fn moved(&self, bar: usize, base: Option<u64>) {
        self.at.lock()[bar] = base;
    }

    fn reset(&self) {}
}

struct Pc {
    root: Arc<PciRoot>,
    ports: BusReader,
    memory: BusReader,
    _buses: [Arc<Bus>; 2],
}

impl Pc {
    fn new(functions: &[Arc<Dummy>]) -> Self {
        let (pio, mmio) = (Arc::new(Bus::new()), Arc::new(Bus::new()));
        let window = |base, len| Window::new(BusRange::new(base, len).unwrap());
        let windows = Windows {
            io: window(PORTS, 0x4000),
            memory32: window(MEMORY, 0x1000_0000),
            memory64: window(1 << 36, 1 << 38),
        };
        let root = PciRoot::new(&pio, &mmio, windows.into()).unwrap();
        for function in functions {
            root.add(Arc::clone(function) as Arc<dyn PciFunction>)
                .unwrap();
        }
        Self {
            root,
            ports: pio.reader(),
            memory: mmio.reader(),
            _buses: [pio, mmio],
        }
    }

    fn select(&mut self, device: u32, register: u32) {
        let address = ENABLE | device << 11 | register;
        assert!(self.ports.write(CONFIG_PORTS, &address.to_le_bytes()));
    }

    /// Accesses a register as most guests do: the port selects the byte.
    fn read(&mut self, device: u32, register: u32, len: usize) -> u32 {
        self.select(device, register & !3);
        self.data(u64::from(register & 3), len)
    }

    /// Accesses a register as kvm-unit-tests does: the low bits of the address select the byte.
    fn read_low_bits(&mut self, device: u32, register: u32, len: usize) -> u32 {
        self.select(device, register);
        self.data(0, len)
    }

    fn data(&mut self, lane: u64, len: usize) -> u32 {
        let mut data = [0; 4];
        assert!(
            self.ports
                .read(CONFIG_PORTS + DATA + lane, &mut data[..len])
        );
        u32::from_le_bytes(data)
    }

    fn write(&mut self, device: u32, register: u32, data: &[u8]) {
        self.select(device, register & !3);
        let lane = u64::from(register & 3);
        assert!(self.ports.write(CONFIG_PORTS + DATA + lane, data));
    }

    /// The number of the function that answers at a memory address.
    fn who(&mut self, address: u64) -> Option<u8> {
        let mut data = [0];
        self.memory.read(address, &mut data).then_some(data[0])
    }

    fn who_port(&mut self, port: u64) -> Option<u8> {
        let mut data = [0];
        self.ports.read(port, &mut data).then_some(data[0])
    }
}

const BAR0: u32 = 0x10;
const BAR1: u32 = 0x14;

#[test]
fn low_bits_of_the_address_choose_the_byte_as_the_port_does() {
    let mut pc = Pc::new(&[Dummy::new(0x77)]);
    assert_eq!(pc.read(1, 0, 4), 0x0077_1234);
    for read in [Pc::read, Pc::read_low_bits] {
        assert_eq!(read(&mut pc, 1, 2, 2), 0x77, "device id by a word");
        assert_eq!(read(&mut pc, 1, 1, 1), 0x12);
        assert_eq!(read(&mut pc, 1, 3, 1), 0);
        assert_eq!(read(&mut pc, 1, 0x0a, 2), 0xff, "class");
    }
}

#[test]
fn a_device_that_is_not_there_reads_as_ones() {
    let mut pc = Pc::new(&[Dummy::new(1)]);
    assert_eq!(pc.read(0, 0, 4), 0x1237_8086, "the host bridge");
    assert_eq!(pc.read(2, 0, 4), u32::MAX);
    assert_eq!(pc.read(31, 0, 2), 0xffff);
    // Another function, another bus, and no access enabled.
    for address in [ENABLE | 1 << 11 | 1 << 8, ENABLE | 1 << 16, 1 << 11] {
        pc.ports.write(CONFIG_PORTS, &address.to_le_bytes());
        assert_eq!(pc.data(0, 4), u32::MAX, "{address:#x}");
        pc.ports.write(CONFIG_PORTS + DATA, &[0; 4]);
    }
    assert_eq!(pc.read(1, 0x04, 2), 3, "and nothing was written");
}

#[test]
fn address_register_reads_back_and_takes_dwords_only() {
    let mut pc = Pc::new(&[]);
    pc.select(3, 0x13);
    let mut data = [0; 4];
    pc.ports.read(CONFIG_PORTS, &mut data);
    assert_eq!(u32::from_le_bytes(data), ENABLE | 3 << 11 | 0x13);
    pc.ports.write(CONFIG_PORTS, &[0, 0]);
    pc.ports.write(CONFIG_PORTS + 1, &[6]);
    pc.ports.read(CONFIG_PORTS, &mut data);
    assert_eq!(u32::from_le_bytes(data), ENABLE | 3 << 11 | 0x13);
    let mut byte = [0];
    pc.ports.read(CONFIG_PORTS + 1, &mut byte);
    assert_eq!(byte, [0xff]);
}

#[test]
fn bars_are_assigned_and_decoded_before_the_guest_starts() {
    let functions = [Dummy::new(1), Dummy::new(2)];
    let mut pc = Pc::new(&functions);
    for (device, at) in [(1, 0), (2, 1)] {
        let (memory, port) = (MEMORY + 0x1000 * at, PORTS + 0x100 * at);
        assert_eq!(u64::from(pc.read(device, BAR0, 4)), memory);
        assert_eq!(u64::from(pc.read(device, BAR1, 4)), port | 1);
        assert_eq!(pc.read(device, 4, 2) & 3, 3);
        let number = u8::try_from(device).unwrap();
        assert_eq!(pc.who(memory + 0xfff), Some(number));
        assert_eq!(pc.who_port(port + 0xff), Some(number));
    }
}

#[test]
fn bar_moves_while_decode_is_on() {
    let dummy = Dummy::new(1);
    let mut pc = Pc::new(&[Arc::clone(&dummy)]);
    pc.write(1, BAR0, &0xe123_4000_u32.to_le_bytes());
    assert_eq!(pc.who(MEMORY), None);
    assert_eq!(pc.who(0xe123_4000), Some(1));
    assert_eq!(dummy.at.lock()[0], Some(0xe123_4000));
    // One byte of the register at a time.
    pc.write(1, BAR0 + 2, &[0x56]);
    assert_eq!(pc.who(0xe156_4000), Some(1));
}

#[test]
fn sizing_with_decode_on_leaves_the_bar_where_it_was() {
    let mut pc = Pc::new(&[Dummy::new(1)]);
    for (register, size) in [(BAR0, 0xffff_f000), (BAR1, 0xffff_ff01)] {
        let before = pc.read(1, register, 4);
        pc.write(1, register, &[0xff; 4]);
        assert_eq!(pc.read(1, register, 4), size);
        pc.write(1, register, &before.to_le_bytes());
    }
    assert_eq!(pc.who(MEMORY), Some(1));
    assert_eq!(pc.who_port(PORTS), Some(1));
}

#[test]
fn decode_off_takes_bars_off_the_bus() {
    let dummy = Dummy::new(1);
    let mut pc = Pc::new(&[Arc::clone(&dummy)]);
    pc.write(1, 4, &[1, 0]);
    assert_eq!((pc.who(MEMORY), pc.who_port(PORTS)), (None, Some(1)));
    pc.write(1, 4, &[0, 0]);
    assert_eq!(pc.who_port(PORTS), None);
    assert_eq!(*dummy.at.lock(), [None, None]);
    pc.write(1, 4, &[3, 0]);
    assert_eq!((pc.who(MEMORY), pc.who_port(PORTS)), (Some(1), Some(1)));
}

#[test]
fn bar_on_top_of_another_device_answers_when_that_has_gone() {
    let mut pc = Pc::new(&[Dummy::new(1), Dummy::new(2)]);
    let first = u32::try_from(MEMORY).unwrap();
    pc.write(2, BAR0, &first.to_le_bytes());
    assert_eq!(pc.who(MEMORY), Some(1), "who came first stays");
    assert_eq!(pc.who(MEMORY + 0x1000), None);
    pc.write(1, BAR0, &(first + 0x8000).to_le_bytes());
    assert_eq!(pc.who(MEMORY), Some(2));
    assert_eq!(pc.who(MEMORY + 0x8000), Some(1));
}

#[test]
fn ports_of_other_devices_cannot_be_taken() {
    let mut pc = Pc::new(&[Dummy::new(1)]);
    pc.write(1, BAR1, &0x0c01_u32.to_le_bytes());
    assert_eq!(pc.who_port(0xc00), None, "0xc00-0xcff has 0xcf8");
    assert_eq!(pc.read(1, 0, 2), 0x1234, "which still works");
}

#[test]
fn reset_puts_everything_back() {
    let mut pc = Pc::new(&[Dummy::new(1)]);
    pc.write(1, BAR0, &0xe800_0000_u32.to_le_bytes());
    pc.write(1, 4, &[0, 0]);
    pc.root.reset();
    assert_eq!(pc.data(0, 4), u32::MAX, "no address is selected");
    assert_eq!(pc.who(MEMORY), Some(1));
    assert_eq!(pc.who(0xe800_0000), None);
}

#[test]
fn function_that_is_pulled_out_answers_nowhere() {
    let mut pc = Pc::new(&[Dummy::new(1), Dummy::new(2)]);
    assert!(pc.root.remove(1));
    assert_eq!(pc.read(1, 0, 4), u32::MAX, "its configuration space");
    assert_eq!(pc.who(MEMORY), None, "its memory");
    assert_ne!(pc.read(2, 0, 4), u32::MAX, "its neighbour stays");
    pc.write(1, BAR0, &0xe000_0000_u32.to_le_bytes());
    pc.root.reset();
    assert_eq!(pc.who(MEMORY), None);
    assert!(!pc.root.remove(1), "it is gone already");
    assert!(!pc.root.remove(31), "it was never there");
}

#[test]
fn errors_name_function_bar_and_window() {
    let pc = Pc::new(&[]);
    let mut last = Ok(0);
    let mut added = 0;
    while last.is_ok() {
        last = pc.root.add(Dummy::new(1));
        added += 1;
    }
    assert_eq!(added, SLOTS, "31 in addition to the bridge");
    assert_eq!(
        last.unwrap_err().to_string(),
        "no slot for dummy: all 32 are taken"
    );

    let (pio, mmio) = (Arc::new(Bus::new()), Arc::new(Bus::new()));
    let small = Window::new(BusRange::new(0xc000, 0x80).unwrap());
    let windows = Windows {
        io: small,
        memory32: Window::new(BusRange::new(MEMORY, 0x1000).unwrap()),
        memory64: small,
    };
    let root = PciRoot::new(&pio, &mmio, windows.into()).unwrap();
    assert_eq!(
        root.add(Dummy::new(1)).unwrap_err().to_string(),
        "no room for BAR1 of dummy, 256 bytes, in 0xc000-0xc07f"
    );
}

#[test]
fn clash_at_the_start_is_an_error() {
    let (pio, mmio) = (Arc::new(Bus::new()), Arc::new(Bus::new()));
    let window = |base, len| Window::new(BusRange::new(base, len).unwrap());
    let windows = Windows {
        io: window(0xcf00 & !0xfff | 0xc00, 0x100),
        memory32: window(MEMORY, 0x1000),
        memory64: window(1 << 36, 1 << 38),
    };
    let root = PciRoot::new(&pio, &mmio, windows.into()).unwrap();
    let taken = BusRange::new(0xcc80, 1).unwrap();
    pio.insert(taken, Arc::new(crate::DoorbellCounter::default()))
        .unwrap();
    let error = root.add(Dummy::new(1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "BAR1 of dummy clashes with another device"
    );
}

/// A configuration write of the model: device, register and value.
fn config_writes() -> impl Strategy<Value = Vec<(u32, u32, u32)>> {
    let memory = (0_u32..6).prop_map(|page| 0xe000_0000 + page * 0x1000);
    let port = (0_u32..6).prop_map(|at| 0xc000 + at * 0x100);
    let write = (1_u32..4).prop_flat_map(move |device| {
        prop_oneof![
            memory.clone().prop_map(move |to| (device, BAR0, to)),
            port.clone().prop_map(move |to| (device, BAR1, to)),
            (0_u32..4).prop_map(move |bits| (device, 4, bits)),
            Just((device, BAR0, u32::MAX)),
        ]
    });
    prop::collection::vec(write, 0..40)
}

proptest! {
    /// After any moves, the same device answers at each memory address as in a model of the registers, in which the
    /// device that was mapped first keeps its addresses. Each function knows its addresses.
    #[test]
    fn bars_answer_where_their_registers_say(writes in config_writes()) {
        let functions = [Dummy::new(1), Dummy::new(2), Dummy::new(3)];
        let mut pc = Pc::new(&functions);
        // The model: the registers of each device, and the address of each device.
        let mut registers: Vec<(u32, u32)> =
            (0..3).map(|n| (0xe000_0000 + n * 0x1000, 3)).collect();
        let mut owners: Vec<Option<u32>> = registers.iter().map(|r| Some(r.0)).collect();
        for (device, register, value) in writes {
            let width = if register == 4 { 2 } else { 4 };
            pc.write(device, register, &value.to_le_bytes()[..width]);
            let model = &mut registers[device as usize - 1];
            match register {
                BAR0 => model.0 = value & !0xfff,
                4 => model.1 = value,
                _ => {}
            }
            let wanted = |&(base, command): &(u32, u32)| {
                (command & 2 != 0 && base != 0xffff_f000).then_some(base)
            };
            for (owner, register) in owners.iter_mut().zip(&registers) {
                *owner = owner.filter(|at| wanted(register) == Some(*at));
            }
            for index in 0..3 {
                let place = wanted(&registers[index]);
                if owners[index].is_none() && !owners.contains(&place) {
                    owners[index] = place;
                }
            }
            for page in 0..6 {
                let at = 0xe000_0000 + page * 0x1000;
                let owner = owners.iter().position(|owner| *owner == Some(at));
                let number = owner.map(|index| u8::try_from(index + 1).unwrap());
                prop_assert_eq!(pc.who(at.into()), number, "{:#x}", at);
            }
            for (function, owner) in functions.iter().zip(&owners) {
                prop_assert_eq!(function.at.lock()[0], owner.map(u64::from));
            }
        }
    }

    /// No port access of any width and value panics.
    #[test]
    fn any_access_is_survived(
        accesses in prop::collection::vec((0_u64..8, 1_usize..=4, any::<u32>()), 0..100),
    ) {
        let mut pc = Pc::new(&[Dummy::new(1)]);
        for (offset, len, value) in accesses {
            pc.ports.write(CONFIG_PORTS + offset, &value.to_le_bytes()[..len]);
            let mut data = [0; 4];
            pc.ports.read(CONFIG_PORTS + offset, &mut data[..len]);
        }
    }
}
