use proptest::prelude::*;

use super::*;

const RAM: usize = 1 << 20;
const PAGE: u32 = 4096;
const SIZE: u16 = 128;
/// Addresses of the output queue's parts, and of the bytes that the driver sends.
const RING: u64 = 0x1_0000;
const AVAIL: u64 = RING + 16 * SIZE as u64;
const USED: u64 = RING + 0x1000;
const TEXT: u64 = 0x2_0000;

/// A driver like that of kvm-unit-tests.
struct Driver<'d, F> {
    device: &'d ChrTestdev<F>,
    memory: &'d GuestMemoryMmap,
    sent: u16,
}

impl<'d, F: Fn(u32) + Send + Sync> Driver<'d, F> {
    fn new(device: &'d ChrTestdev<F>, memory: &'d GuestMemoryMmap) -> Self {
        write(device, GUEST_PAGE_SIZE, PAGE);
        for (queue, page) in [(0, 0x80), (OUTPUT, 0x10)] {
            write(device, QUEUE_SEL, queue);
            assert!(read(device, QUEUE_SIZE_MAX) >= SIZE.into());
            assert_eq!(read(device, QUEUE_PFN), 0);
            write(device, QUEUE_SIZE, SIZE.into());
            write(device, QUEUE_ALIGN, PAGE);
            write(device, QUEUE_PFN, page);
            assert_eq!(read(device, QUEUE_PFN), page);
        }
        Self {
            device,
            memory,
            sent: 0,
        }
    }

    fn send(&mut self, text: &[u8]) {
        let at = |address| GuestAddress(address);
        self.memory.write_slice(text, at(TEXT)).unwrap();
        self.memory.write_obj(TEXT, at(RING)).unwrap();
        let len = u32::try_from(text.len()).unwrap();
        self.memory.write_obj(len, at(RING + 8)).unwrap();
        self.memory.write_obj(0_u32, at(RING + 12)).unwrap();
        let entry = AVAIL + 4 + 2 * u64::from(self.sent % SIZE);
        self.memory.write_obj(0_u16, at(entry)).unwrap();
        self.sent += 1;
        self.memory.write_obj(self.sent, at(AVAIL + 2)).unwrap();
        write(self.device, QUEUE_NOTIFY, OUTPUT);
        let used: u16 = self.memory.read_obj(at(USED + 2)).unwrap();
        assert_eq!(used, self.sent);
    }
}

fn read<F: Fn(u32) + Send + Sync>(device: &ChrTestdev<F>, offset: u64) -> u32 {
    let mut data = [0; 4];
    device.read(offset, &mut data);
    u32::from_le_bytes(data)
}

fn write<F: Fn(u32) + Send + Sync>(device: &ChrTestdev<F>, offset: u64, value: u32) {
    device.write(offset, &value.to_le_bytes());
}

fn memory() -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), RAM)]).unwrap()
}

/// The exit codes of a machine whose guest sends these texts.
fn codes(texts: &[&[u8]]) -> Vec<u32> {
    let (memory, codes) = (memory(), Mutex::new(Vec::new()));
    let device = ChrTestdev::new(&memory, |code| codes.lock().push(code));
    let mut driver = Driver::new(&device, &memory);
    texts.iter().for_each(|text| driver.send(text));
    codes.into_inner()
}

#[test]
fn number_before_the_letter_is_the_code_however_it_is_cut() {
    assert_eq!(codes(&[b"0q"]), [0]);
    assert_eq!(codes(&[b"1", b"27q", b"3q"]), [127, 3]);
    assert_eq!(codes(&[b"5x6q"]), [6]);
    assert!(codes(&[b"12", b"", b"x"]).is_empty());
}

#[test]
fn device_is_a_legacy_console_and_a_reset_takes_its_queues() {
    let memory = memory();
    let device = ChrTestdev::new(&memory, |_| {});
    let identity = [MAGIC_VALUE, VERSION, DEVICE_ID].map(|offset| read(&device, offset));
    assert_eq!(identity, [MAGIC, 1, CONSOLE]);
    Driver::new(&device, &memory);
    write(&device, STATUS, 0);
    Driver::new(&device, &memory).send(b"after the reset");
    write(&device, QUEUE_SEL, 2);
    assert_eq!(read(&device, QUEUE_SIZE_MAX), 0);
}

#[test]
fn ring_that_is_not_in_memory_is_not_set_up() {
    let memory = memory();
    let device = ChrTestdev::new(&memory, |_| {});
    write(&device, QUEUE_SEL, OUTPUT);
    for (page_size, size, align, page) in [
        (PAGE, 128, PAGE, 0x100),
        (PAGE, 128, 0, 0x10),
        (PAGE, 0, PAGE, 0x10),
        (PAGE, 127, PAGE, 0x10),
        (u32::MAX, 256, u32::MAX, u32::MAX),
    ] {
        write(&device, GUEST_PAGE_SIZE, page_size);
        write(&device, QUEUE_SIZE, size);
        write(&device, QUEUE_ALIGN, align);
        write(&device, QUEUE_PFN, page);
        assert_eq!(read(&device, QUEUE_PFN), 0, "{size} {align} {page}");
        write(&device, QUEUE_NOTIFY, OUTPUT);
    }
}

proptest! {
    #[test]
    fn any_accesses_are_survived(
        accesses in prop::collection::vec((0_u64..0x110, prop_oneof![0_u32..600, any::<u32>()]), 1..64),
        noise in prop::collection::vec(any::<u8>(), 0..4096),
    ) {
        let memory = memory();
        let device = ChrTestdev::new(&memory, |_| {});
        Driver::new(&device, &memory);
        memory.write_slice(&noise, GuestAddress(RING)).unwrap();
        for (offset, value) in accesses {
            write(&device, offset & !3, value);
            read(&device, offset & !3);
            write(&device, QUEUE_NOTIFY, OUTPUT);
        }
    }
}
