//! Notifications that say how far the driver has made buffers available (`VIRTIO_F_NOTIFICATION_DATA`).

use super::*;
use kit::wait::await_that;
use vmbell_virtqueue::{
    Brand, Buffer, Driver, Features, PackedDriver, PackedLayout, Side, SplitDriver, brand,
};

/// Bits in the upper half of the features.
const VERSION_1: u64 = 1 << 0;
const RING_PACKED: u64 = 1 << 2;
const NOTIFICATION_DATA: u64 = 1 << 6;
const QUEUE: u16 = 1;
const ADDRESS: u64 = NOTIFY + 4 * QUEUE as u64;
const SPLIT: SplitLayout = SplitLayout::contiguous(0x2000, 8);
const PACKED: PackedLayout = PackedLayout::contiguous(0x2000, 8);

const CONFIG: VirtioConfig = VirtioConfig {
    notify: Notify::Doorbell,
    raise: Raise::Irqfd,
    notify_ports: false,
    packed: true,
    notification_data: true,
};

/// A machine with a backend that stores values, or one that does not.
fn pc(stores: bool, config: VirtioConfig) -> Pc {
    let registry = Registry {
        stores,
        ..Registry::default()
    };
    Pc::on(registry, |guest| {
        VirtioPci::new(VirtioDevice::new(Inverter, QUEUES, config), guest).unwrap()
    })
}

/// A live device whose driver has chosen these features.
fn live(upper: u64) -> Pc {
    let mut pc = pc(true, CONFIG);
    go_live(&mut pc, upper);
    pc
}

fn go_live(pc: &mut Pc, upper: u64) {
    pc.negotiate_with(upper);
    let packed = SplitLayout {
        size: PACKED.size,
        descriptors: PACKED.descriptors,
        avail: PACKED.driver_event,
        used: PACKED.device_event,
    };
    let is_packed = upper & RING_PACKED != 0;
    assert!(pc.set_up(QUEUE, if is_packed { &packed } else { &SPLIT }, 0xffff));
    pc.go_live();
}

/// The value of a notification.
fn data<T>(driver: &Driver<T, impl Side, impl Brand>) -> u64 {
    u64::from(driver.next_avail()) << 16 | u64::from(QUEUE)
}

/// Makes many requests, each notified with the driver's position through a doorbell.
fn answers(pc: &mut Pc, mut driver: Driver<u32, impl Side, impl Brand>) {
    for lap in 0..100 {
        let pieces = ([Buffer::new(0x8000, 8)], [Buffer::new(0x9000, 8)]);
        driver.add(&pieces.0, &pieces.1, lap).unwrap();
        assert!(pc.store(ADDRESS, 4, data(&driver)), "by a doorbell");
        let mut used = None;
        await_that("the answer", || {
            used = driver.get_used().unwrap();
            used.is_some()
        });
        assert_eq!(used.map(|used| used.data), Some(lap));
    }
    assert_eq!(pc.errors(), 0);
}

#[test]
fn notifications_with_data_are_offered_if_that_is_asked_for() {
    for notification_data in [true, false] {
        let mut pc = Pc::new(VirtioConfig {
            notification_data,
            ..VirtioConfig::default()
        });
        pc.set(DEVICE_FEATURE_SELECT, 4, 1);
        let features = pc.get(DEVICE_FEATURE, 4);
        assert_eq!(features & NOTIFICATION_DATA != 0, notification_data);
    }
}

#[test]
fn requests_are_answered_lap_after_lap_in_both_formats() {
    brand::scoped(|brand| {
        let mut pc = live(VERSION_1 | NOTIFICATION_DATA);
        let memory = &pc.memory.clone();
        let driver = SplitDriver::new(&memory, &SPLIT, Features::default(), brand).unwrap();
        answers(&mut pc, driver);
    });
    brand::scoped(|brand| {
        let mut pc = live(VERSION_1 | NOTIFICATION_DATA | RING_PACKED);
        let memory = &pc.memory.clone();
        let driver = PackedDriver::new(&memory, &PACKED, Features::default(), brand).unwrap();
        answers(&mut pc, driver);
    });
}

#[test]
fn a_position_that_another_vcpu_has_overwritten_with_an_older_one_loses_no_notification() {
    brand::scoped(|brand| {
        let mut pc = live(VERSION_1 | NOTIFICATION_DATA);
        let memory = &pc.memory.clone();
        let mut driver = SplitDriver::new(&memory, &SPLIT, Features::default(), brand).unwrap();
        for lap in 0..20 {
            let late = data(&driver);
            driver.add(&[Buffer::new(0x8000, 8)], &[], lap).unwrap();
            let place = IoEventAddress::Mmio(ADDRESS);
            // The thread reads the older position, which the device has reached.
            let bytes = u32::try_from(late).unwrap().to_le_bytes();
            pc.registry.store(place, &bytes);
            assert!(pc.bell.ring(place, &bytes));
            await_that("the answer", || driver.get_used().unwrap().is_some());
        }
    });
}

#[test]
fn doorbells_move_with_the_bar_and_go_with_a_reset() {
    brand::scoped(|brand| {
        let mut pc = live(VERSION_1 | NOTIFICATION_DATA);
        assert_eq!(pc.registry.registered(), 2);
        let moved = BASE + 0x10_0000;
        pc.configure(0x10, 4, moved);
        assert_eq!(pc.registry.registered(), 2);
        let memory = &pc.memory.clone();
        let mut driver = SplitDriver::new(&memory, &SPLIT, Features::default(), brand).unwrap();
        driver.add(&[Buffer::new(0x8000, 8)], &[], ()).unwrap();
        let to = moved + ADDRESS - BASE;
        assert!(pc.store(to, 4, data(&driver)));
        await_that("the answer", || driver.get_used().unwrap().is_some());
        pc.store(moved + STATUS, 1, 0);
        assert_eq!(pc.registry.registered(), 0);
    });
}

#[test]
fn a_driver_that_does_not_choose_it_has_doorbells_of_any_length() {
    let mut pc = live(VERSION_1);
    for len in [1, 2, 4, 8] {
        assert!(pc.store(ADDRESS, len, 1));
    }
}

#[test]
fn a_backend_that_stores_no_values_is_an_error_when_the_driver_begins() {
    let mut pc = pc(false, CONFIG);
    go_live(&mut pc, VERSION_1);
    assert_eq!(pc.errors(), 0, "the driver has not chosen it");
    let mut pc = self::pc(false, CONFIG);
    go_live(&mut pc, VERSION_1 | NOTIFICATION_DATA);
    assert_eq!(pc.errors(), 1);
}

#[test]
fn a_device_without_a_doorbell_cannot_have_them() {
    let config = VirtioConfig {
        notify: Notify::Exit,
        ..CONFIG
    };
    Pc::of(|guest| {
        let refused = VirtioPci::new(VirtioDevice::new(Inverter, QUEUES, config), guest.clone());
        let text = refused.unwrap_err().to_string();
        assert_eq!(text, "notification data needs a doorbell");
        VirtioPci::new(
            VirtioDevice::new(Inverter, QUEUES, VirtioConfig::default()),
            guest,
        )
        .unwrap()
    });
}
