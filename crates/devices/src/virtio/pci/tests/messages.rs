//! Vectors, masks and pending bits, and the interrupt status (virtio 1.3, 4.1.5.1.2 and 4.1.5.3; PCI 3.0, 6.8.2).

use vm_memory::Bytes;

use super::*;
use vmbell_virtqueue::{Buffer, Features, SplitDriver, brand};

const LAYOUT: SplitLayout = SplitLayout::contiguous(0, 8);

/// A live device: queue 0 has vector 1, and the configuration has vector 0.
fn live(config: VirtioConfig) -> Pc {
    let mut pc = Pc::new(config);
    pc.set_msix(true, false);
    pc.set_vector(0, false);
    pc.set_vector(1, false);
    pc.negotiate();
    pc.set(CONFIG_VECTOR, 2, 0);
    assert!(pc.set_up(0, &LAYOUT, 1));
    pc.go_live();
    pc
}

const EXIT: VirtioConfig = VirtioConfig {
    notify: Notify::Exit,
    raise: Raise::Irqfd,
    notify_ports: false,
    packed: false,
    notification_data: false,
};

/// Calls `act` after each of `count` requests that the device has answered.
fn answered(pc: &mut Pc, count: usize, mut act: impl FnMut(&mut Pc)) {
    brand::scoped(|brand| {
        let memory = pc.memory.clone();
        let memory = &memory;
        let mut driver = SplitDriver::new(&memory, &LAYOUT, Features::default(), brand).unwrap();
        for _ in 0..count {
            driver.add(&[Buffer::new(0x4000, 4)], &[], ()).unwrap();
            pc.store(NOTIFY, 2, 0);
            assert!(driver.get_used().unwrap().is_some());
            act(pc);
        }
    });
}

#[test]
fn a_used_buffer_sends_the_message_of_the_queue() {
    let mut pc = live(EXIT);
    answered(&mut pc, 3, |pc| {
        assert_eq!(pc.wires.take(), [message(1)]);
    });
    assert_eq!(pc.load(ISR, 1), 0, "the status is for lines");
    assert_eq!(pc.wires.lock().calls, 0);
    assert_eq!(pc.errors(), 0);
}

#[test]
fn messages_by_calls_need_no_irqfd() {
    let mut pc = live(VirtioConfig {
        raise: Raise::Call,
        ..EXIT
    });
    answered(&mut pc, 2, |pc| assert_eq!(pc.wires.take(), [message(1)]));
    assert_eq!(pc.wires.lock().calls, 2);
    assert_eq!(pc.wires.counts(), (0, 0));
}

#[test]
fn a_masked_vector_is_pending_and_sends_one_message_once_it_is_unmasked() {
    let mut pc = live(EXIT);
    pc.set_vector(1, true);
    answered(&mut pc, 2, |pc| {
        assert_eq!(pc.wires.take(), []);
        assert_eq!(pc.load(PENDING, 8), 0b10);
    });
    pc.set_vector(1, false);
    assert_eq!(pc.wires.take(), [message(1)]);
    assert_eq!(pc.load(PENDING, 8), 0);
    pc.set_vector(1, true);
    pc.set_vector(1, false);
    assert_eq!(pc.wires.take(), []);
}

#[test]
fn the_mask_of_the_function_holds_back_every_vector() {
    let mut pc = live(EXIT);
    pc.set_msix(true, true);
    answered(&mut pc, 1, |pc| assert_eq!(pc.wires.take(), []));
    assert_eq!(pc.load(PENDING, 4), 0b10);
    pc.set_msix(true, false);
    assert_eq!(pc.wires.take(), [message(1)]);
}

#[test]
fn without_msix_the_interrupt_status_says_what_there_was() {
    let mut pc = live(EXIT);
    pc.set_msix(false, false);
    answered(&mut pc, 1, |pc| assert_eq!(pc.wires.take(), []));
    assert_eq!(pc.load(PENDING, 8), 0);
    for (len, status) in [(2, 0), (4, 0), (1, 1), (1, 0)] {
        assert_eq!(pc.load(ISR, len), status, "reading clears");
    }
}

#[test]
fn a_message_that_is_no_interrupt_counts_as_masked() {
    let mut pc = live(EXIT);
    let entry = TABLE + 16;
    pc.store(entry, 4, 0x1000);
    answered(&mut pc, 1, |pc| assert_eq!(pc.wires.take(), []));
    assert_eq!(pc.load(PENDING, 8), 0b10);
    pc.store(entry, 4, 0xfee0_0000);
    assert_eq!(pc.wires.take(), [message(1)]);
    assert_eq!(pc.errors(), 0);
}

#[test]
fn a_vector_follows_its_entry_without_another_irqfd() {
    let mut pc = live(EXIT);
    let before = pc.wires.counts();
    let mut data = message(1).data;
    answered(&mut pc, 20, |pc| {
        assert_eq!(pc.wires.take()[0].data, data);
        data += 1;
        pc.store(TABLE + 16 + 8, 4, data.into());
    });
    assert_eq!(pc.wires.counts(), before);
}

#[test]
fn a_queue_without_a_vector_sends_nothing() {
    let mut pc = live(EXIT);
    pc.set(QUEUE_SELECT, 2, 0);
    pc.set(QUEUE_VECTOR, 2, 0xffff);
    answered(&mut pc, 1, |pc| assert_eq!(pc.wires.take(), []));
    assert_eq!(pc.load(PENDING, 8), 0);
    assert_eq!(pc.load(ISR, 1), 0);
}

#[test]
fn a_vector_that_is_not_there_reads_as_none() {
    let mut pc = live(EXIT);
    for vector in [3, 4, 0x7ff, 0x8000] {
        for field in [CONFIG_VECTOR, QUEUE_VECTOR] {
            pc.set(field, 2, 0);
            assert_eq!(pc.get(field, 2), 0);
            pc.set(field, 2, vector);
            assert_eq!(pc.get(field, 2), 0xffff);
        }
    }
}

#[test]
fn a_queue_that_the_driver_breaks_sends_the_message_of_the_configuration() {
    let mut pc = live(EXIT);
    // The index of the available ring is further ahead than the ring's length.
    pc.memory
        .write_slice(&[9, 0], GuestAddress(LAYOUT.avail + 2))
        .unwrap();
    pc.store(NOTIFY, 2, 0);
    assert_eq!(pc.wires.take(), [message(0)]);
    assert_eq!(pc.get(STATUS, 1), DRIVER_OK | NEEDS_RESET);
}

#[test]
fn a_reset_of_the_bus_masks_every_vector() {
    let mut pc = live(EXIT);
    pc.set_vector(1, true);
    answered(&mut pc, 1, |_| {});
    pc.root.reset();
    assert_eq!(pc.load(TABLE + 16 + 12, 4), 1);
    assert_eq!(pc.load(PENDING, 8), 0);
    assert_eq!(pc.get(STATUS, 1), 0);
    let msix = pc.msix();
    assert_eq!(pc.config(msix + 2, 2), 2, "off");
}

#[test]
fn after_a_reset_of_the_bus_no_vector_sends_before_it_is_set_up_again() {
    let mut pc = live(EXIT);
    answered(&mut pc, 1, |pc| assert_eq!(pc.wires.take(), [message(1)]));
    for (msix, status, pending) in [(false, 1, 0), (true, 0, 0b10)] {
        pc.root.reset();
        pc.memory.write_slice(&[0; 0x400], GuestAddress(0)).unwrap();
        pc.set_msix(msix, false);
        pc.negotiate();
        assert!(pc.set_up(0, &LAYOUT, 1));
        pc.go_live();
        answered(&mut pc, 1, |pc| assert_eq!(pc.wires.take(), []));
        assert_eq!((pc.load(ISR, 1), pc.load(PENDING, 8)), (status, pending));
    }
    pc.set_vector(1, false);
    assert_eq!(pc.wires.take(), [message(1)]);
}

#[test]
fn a_device_that_goes_takes_its_irqfds_and_routes_along() {
    let mut pc = live(EXIT);
    answered(&mut pc, 1, |_| {});
    let wires = Arc::clone(&pc.wires);
    assert_eq!(wires.counts(), (2, 2));
    drop(pc);
    assert_eq!(wires.counts(), (0, 0));
}
