//! What a reset clears: the lines of the table for both transports, and the lines for this transport only.

use vm_memory::Bytes;

use super::*;
use crate::virtio::reset_test::{Driven, Field, LAYOUT, Puppet, on_transport};
use crate::virtio::worker_double::Double;

impl Driven for Pc {
    fn new(puppet: Puppet) -> Self {
        let config = VirtioConfig {
            notify: Notify::Exit,
            ..VirtioConfig::default()
        };
        Self::with(puppet, QUEUES, config)
    }

    fn memory(&self) -> &GuestMemoryMmap {
        &self.memory
    }

    fn get(&mut self, field: Field) -> u32 {
        let (address, len) = place_of(field);
        self.load(address, len).try_into().unwrap()
    }

    fn set(&mut self, field: Field, value: u32) {
        let (address, len) = place_of(field);
        self.store(address, len, value.into());
    }

    fn set_up(&mut self, queue: u16, layout: &SplitLayout) -> bool {
        Pc::set_up(self, queue, layout, 0xffff)
    }

    fn notify(&mut self, queue: u16) {
        self.store(NOTIFY + 4 * u64::from(queue), 2, queue.into());
    }
}

/// The address of a register, and its width.
const fn place_of(field: Field) -> (u64, usize) {
    match field {
        Field::Status => (BASE + STATUS, 1),
        Field::DeviceFeatureSelector => (BASE + DEVICE_FEATURE_SELECT, 4),
        Field::DeviceFeatures => (BASE + DEVICE_FEATURE, 4),
        Field::DriverFeatureSelector => (BASE + DRIVER_FEATURE_SELECT, 4),
        Field::DriverFeatures => (BASE + DRIVER_FEATURE, 4),
        Field::QueueSelector => (BASE + QUEUE_SELECT, 2),
        Field::QueueSize => (BASE + QUEUE_SIZE, 2),
        Field::QueueReady => (BASE + QUEUE_ENABLE, 2),
        Field::Reasons => (ISR, 1),
    }
}

on_transport! { Pc }

#[test]
fn size_and_addresses_of_a_queue_are_the_first_ones() {
    let mut pc = Pc::plain();
    let fields = [(QUEUE_SIZE, 2)]
        .into_iter()
        .chain(QUEUE_ADDRESSES.map(|field| (field, 8)));
    let read = |pc: &mut Pc| {
        let values = fields.clone().map(|(field, len)| pc.get(field, len));
        values.collect::<Vec<_>>()
    };
    pc.set(QUEUE_SELECT, 2, 0);
    let first = read(&mut pc);
    pc.negotiate();
    assert!(pc.set_up(0, &SplitLayout::contiguous(0x1000, 8), 0));
    assert_ne!(read(&mut pc), first);
    pc.set(STATUS, 1, 0);
    assert_eq!(read(&mut pc), first);
    assert_eq!(first, [256, 0, 0, 0]);
}

/// A machine in which vector 1, the vector of queue 0, is masked; the configuration has vector 0.
fn masked(config: VirtioConfig) -> Pc {
    let mut pc = Pc::new(config);
    start_masked(&mut pc);
    pc
}

fn start_masked(pc: &mut Pc) {
    pc.set_msix(true, false);
    pc.set_vector(0, false);
    pc.set_vector(1, true);
    pc.negotiate();
    pc.set(CONFIG_VECTOR, 2, 0);
    assert!(pc.set_up(0, &LAYOUT, 1));
    pc.go_live();
}

/// Unmasks the vector after the reset, which must send no message.
fn assert_nothing_is_pending(pc: &mut Pc) {
    assert_eq!(pc.load(PENDING, 8), 0);
    pc.set_vector(1, false);
    assert_eq!(pc.wires.take(), []);
    assert_eq!(pc.errors(), 0);
}

#[test]
fn pending_bit_is_clear_and_its_message_is_not_sent() {
    for raise in [Raise::Irqfd, Raise::Call] {
        let mut pc = masked(VirtioConfig {
            notify: Notify::Exit,
            raise,
            ..VirtioConfig::default()
        });
        let index = GuestAddress(LAYOUT.avail + 2);
        pc.memory.write_obj(1_u16, index).unwrap();
        pc.store(NOTIFY, 2, 0);
        assert_eq!(pc.load(PENDING, 8), 0b10, "{raise:?}");
        pc.set(STATUS, 1, 0);
        assert_nothing_is_pending(&mut pc);
    }
}

#[test]
fn call_of_a_worker_from_before_and_after_it_is_not_sent() {
    let worker = Double::default();
    let theirs = worker.clone();
    let config = VirtioConfig::default();
    let mut pc =
        Pc::of(|guest| VirtioPci::new(VirtioDevice::with_worker(theirs, config), guest).unwrap());
    for looks in [false, true] {
        start_masked(&mut pc);
        let call = worker.told().calls.pop().unwrap();
        call.write(1).unwrap();
        if looks {
            assert_eq!(pc.load(PENDING, 8), 0b10);
        }
        pc.set(STATUS, 1, 0);
        assert_nothing_is_pending(&mut pc);
        pc.set_vector(1, true);
        call.write(1).unwrap();
        assert_nothing_is_pending(&mut pc);
    }
    // The next worker's calls arrive.
    start_masked(&mut pc);
    let call = worker.told().calls.pop().unwrap();
    call.write(1).unwrap();
    assert_eq!(pc.load(PENDING, 8), 0b10);
    pc.set_vector(1, false);
    assert_eq!(pc.wires.take(), [message(1)]);
}

#[test]
fn vectors_are_none_and_the_table_of_messages_stays() {
    let mut pc = masked(VirtioConfig::default());
    pc.set(STATUS, 1, 0);
    assert_eq!(pc.get(CONFIG_VECTOR, 2), 0xffff);
    pc.set(QUEUE_SELECT, 2, 0);
    assert_eq!(pc.get(QUEUE_VECTOR, 2), 0xffff);
    let data = message(1).data;
    assert_eq!(pc.load(TABLE + 16 + 8, 4), u64::from(data));
    assert_eq!(pc.load(TABLE + 16 + 12, 4), 1, "masked");
    let control = pc.msix() + 2;
    assert_eq!(pc.config(control, 2) >> 14, 0b10, "on");
}

#[test]
fn doorbells_are_removed() {
    let mut pc = masked(VirtioConfig::default());
    assert!(pc.store(NOTIFY, 2, 0));
    pc.set(STATUS, 1, 0);
    assert!(!pc.store(NOTIFY, 2, 0));
}
