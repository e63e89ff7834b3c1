use vm_memory::Bytes;

use super::*;
use crate::virtio::{Handled, HandlerError, Request};
use vmbell_virtqueue::QueueError;

const LAYOUT: SplitLayout = SplitLayout::contiguous(0, 8);

/// A live device whose ring the test writes itself.
fn live() -> Device {
    let device = Device::new(Notify::Exit);
    device.negotiate(0);
    assert!(
        device.set_up(0, 8, &LAYOUT) && device.set_up(1, 8, &SplitLayout::contiguous(0x1000, 8))
    );
    device.go_live();
    device
}

fn poke<T: vm_memory::ByteValued>(device: &Device, value: T, address: u64) {
    device
        .memory
        .write_obj(value, GuestAddress(address))
        .unwrap();
}

/// Offers descriptor 0 with this address, length and flags.
fn offer(device: &Device, address: u64, len: u32, flags: u16) {
    poke(device, address, 0);
    poke(device, len, 8);
    poke(device, flags, 12);
    poke(device, 0_u16, 14);
    poke(device, 0_u16, LAYOUT.avail + 4);
    poke(device, 1_u16, LAYOUT.avail + 2);
    device.write(register::QUEUE_NOTIFY, 0);
}

fn assert_stopped(device: &Device) -> Refusal {
    assert_eq!(device.status() & NEEDS_RESET, NEEDS_RESET);
    assert_eq!(
        device.read(register::INTERRUPT_STATUS),
        2,
        "a change of the configuration"
    );
    let refusal = device.refusal();
    device.write(register::QUEUE_NOTIFY, 0);
    assert!(
        device.transport.take_refusal().is_none(),
        "the queue is not looked at any more"
    );
    assert_eq!(device.status() & NEEDS_RESET, NEEDS_RESET, "still");
    device.negotiate(0);
    assert!(device.set_up(0, 8, &LAYOUT), "a reset mends it");
    refusal
}

#[test]
fn an_index_too_far_ahead_stops_the_queue() {
    let device = live();
    poke(&device, 9_u16, LAYOUT.avail + 2);
    device.write(register::QUEUE_NOTIFY, 0);
    let refusal = assert_stopped(&device);
    let source = QueueError::AvailAhead {
        index: 9,
        used: 0,
        size: 8,
    };
    assert!(
        matches!(refusal, Refusal::Broken { queue: 0, source: s } if s == source),
        "{refusal:?}"
    );
}

#[test]
fn a_chain_with_a_loop_stops_the_queue() {
    let device = live();
    offer(&device, 0x4000, 8, 1);
    let refusal = assert_stopped(&device);
    assert!(matches!(
        refusal,
        Refusal::Broken {
            source: QueueError::Loop { head: 0 },
            ..
        }
    ));
}

#[test]
fn a_buffer_outside_of_ram_stops_the_queue() {
    let device = live();
    poke(&device, RAM as u64, 16);
    poke(&device, 16_u32, 24);
    poke(&device, 2_u16, 28);
    poke(&device, 1_u16, 14);
    poke(&device, 0x4000_u64, 0);
    poke(&device, 16_u32, 8);
    poke(&device, 1_u16, 12);
    poke(&device, 1_u16, 14);
    poke(&device, 1_u16, LAYOUT.avail + 2);
    device.write(register::QUEUE_NOTIFY, 0);
    let refusal = assert_stopped(&device);
    assert!(
        matches!(&refusal, Refusal::Handler { source: HandlerError::Outside { address, .. }, .. } if address.0 == RAM as u64),
        "{refusal:?}"
    );
}

#[test]
fn a_broken_queue_leaves_the_other_alone() {
    let device = live();
    poke(&device, 9_u16, LAYOUT.avail + 2);
    device.write(register::QUEUE_NOTIFY, 0);
    poke(&device, 0x4000_u64, 0x1000);
    poke(&device, 4_u32, 0x1008);
    let avail = SplitLayout::contiguous(0x1000, 8).avail;
    poke(&device, 1_u16, avail + 2);
    assert_eq!(device.transport.queues()[1].serve().chains, 1);
}

/// Panics at each request, or when the driver has chosen features.
struct Panics {
    at_features: bool,
}

impl Handler for Panics {
    const DEVICE_ID: u32 = 0xffff;

    fn accepted(&self, features: u64) {
        assert!(!self.at_features, "features {features:#x}");
    }

    fn handle(&self, request: Request<'_>) -> Result<Handled, HandlerError> {
        panic!("a request of queue {}", request.queue())
    }
}

#[test]
fn a_device_that_panics_stops_as_one_that_fails() {
    for (at_features, text) in [
        (false, "the device panicked: a request of queue 0"),
        (true, "the device panicked: features 0x100000000"),
    ] {
        let handler = Panics { at_features };
        let device = Device::of(handler, Notify::Exit, Interrupt::none());
        device.negotiate(0);
        assert!(device.set_up(0, 8, &LAYOUT));
        device.go_live();
        poke(&device, 1_u16, LAYOUT.avail + 2);
        device.write(register::QUEUE_NOTIFY, 0);
        assert_eq!(assert_stopped(&device).to_string(), text);
    }
}
