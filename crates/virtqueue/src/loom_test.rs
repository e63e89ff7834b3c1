//! Explores every interleaving of a driver thread and a device thread over one or two buffers. Run with
//! `RUSTFLAGS="--cfg loom" cargo test --release --lib models --target-dir target/loom`.

use loom::{cell::UnsafeCell, sync::Arc, thread};

use super::{
    Brand, Buffer, Chain, DeviceQueue, Driver, Features, HostMemory, PackedDevice, PackedDriver,
    PackedLayout, PackedRing, QueuePoller, Ring, Side, SplitDevice, SplitDriver, SplitLayout,
    SplitRing,
};

/// The content of a buffer, whose accesses the model checker sees.
struct Content(UnsafeCell<u32>);

// SAFETY: all access goes through the cell, and the checker fails a model that races.
#[allow(unsafe_code)]
unsafe impl Sync for Content {}

impl Content {
    #[allow(unsafe_code)]
    fn get(&self) -> u32 {
        // SAFETY: the pointer is the cell's own; the checker fails the model if another thread writes meanwhile.
        self.0.with(|value| unsafe { *value })
    }

    #[allow(unsafe_code)]
    fn set(&self, new: u32) {
        // SAFETY: as above; the checker also fails the model if another thread reads meanwhile.
        self.0.with_mut(|value| unsafe { *value = new });
    }
}

// Loom runs a model many times, so the value of this brand can be taken many times.
crate::queue_brand!(Model);

const SIZE: u16 = 2;
const EVENT_IDX: [bool; 2] = [false, true];

type Split = (
    SplitDriver<u64, HostMemory, Model>,
    SplitDevice<HostMemory>,
    QueuePoller<SplitRing<HostMemory>, Model>,
);
type Packed = (
    PackedDriver<u64, HostMemory, Model>,
    PackedDevice<HostMemory>,
    QueuePoller<PackedRing<HostMemory>, Model>,
);

fn features(event_idx: bool) -> Features {
    Features {
        event_idx,
        ..Features::default()
    }
}

fn split(event_idx: bool) -> Split {
    let (layout, features) = (SplitLayout::contiguous(0, SIZE), features(event_idx));
    let driver = SplitDriver::new(&HostMemory::new(0), &layout, features, Model(())).unwrap();
    let device = SplitDevice::over(driver.ring().clone(), features);
    let poller = driver.poller();
    (driver, device, poller)
}

fn packed(event_idx: bool) -> Packed {
    packed_with(features(event_idx))
}

fn packed_with(features: Features) -> Packed {
    let layout = PackedLayout::contiguous(0, SIZE);
    let driver = PackedDriver::new(&HostMemory::new(0), &layout, features, Model(())).unwrap();
    let device = PackedDevice::over(driver.ring().clone(), features);
    let poller = driver.poller();
    (driver, device, poller)
}

fn offer(driver: &mut Driver<u64, impl Side, impl Brand>) {
    driver.add(&[], &[Buffer::new(0, 8)], 1).unwrap();
}

fn take(device: &mut impl DeviceQueue) -> bool {
    let mut chain = Chain::with_capacity(2);
    let Some(head) = device.pop(&mut chain).unwrap() else {
        return false;
    };
    assert_eq!(
        chain.writable(),
        [Buffer::new(0, 8)],
        "the whole descriptor is there"
    );
    device.add_used(head, 8).unwrap();
    true
}

/// Sends one buffer to the device and back, so that no index is at its start and no notification is pending.
fn turn(driver: &mut Driver<u64, impl Side, impl Brand>, device: &mut impl DeviceQueue) {
    offer(driver);
    driver.kick_prepare();
    assert!(take(device));
    device.needs_notification();
    driver.get_used().unwrap().unwrap();
}

/// What a side writes to a buffer before it hands the buffer over is visible to the other side.
fn hands_over<S, V>(mut driver: Driver<u64, S, Model>, mut device: V, pieces: usize)
where
    S: Side<Memory: Send> + 'static + Send,
    V: DeviceQueue + 'static + Send,
{
    driver.disable_cb();
    // No atomic, because loom never shows old values of one to a thread that has yielded.
    let content = Arc::new(Content(UnsafeCell::new(0)));
    let theirs = Arc::clone(&content);
    let thread = thread::spawn(move || {
        while !take_with(&mut device, &theirs, pieces) {
            thread::yield_now();
        }
    });
    content.set(1);
    let buffers = [Buffer::new(0, 8); 2];
    driver.add(&[], &buffers[..pieces], 1).unwrap();
    let used = loop {
        match driver.get_used().unwrap() {
            Some(used) => break used,
            None => thread::yield_now(),
        }
    };
    assert_eq!((used.data, used.len), (1, 8));
    assert_eq!(content.get(), 2);
    thread.join().unwrap();
}

fn take_with(device: &mut impl DeviceQueue, content: &Content, pieces: usize) -> bool {
    let mut chain = Chain::with_capacity(2);
    let Some(head) = device.pop(&mut chain).unwrap() else {
        return false;
    };
    assert_eq!(chain.writable(), &[Buffer::new(0, 8); 2][..pieces]);
    assert_eq!(content.get(), 1);
    content.set(2);
    device.add_used(head, 8).unwrap();
    true
}

#[test]
fn split_buffers_are_handed_over_whole() {
    for pieces in [1, 2] {
        loom::model(move || {
            let (driver, device, _) = split(false);
            hands_over(driver, device, pieces);
        });
    }
}

#[test]
fn packed_buffers_are_handed_over_whole() {
    for pieces in [1, 2] {
        loom::model(move || {
            let (driver, device, _) = packed(false);
            hands_over(driver, device, pieces);
        });
    }
}

/// A device that goes to sleep is notified, or finds the buffer itself.
fn kick_is_not_lost<S, V>(mut driver: Driver<u64, S, Model>, mut device: V)
where
    S: Side<Memory: Send> + 'static + Send,
    V: DeviceQueue + 'static + Send,
{
    driver.disable_cb();
    turn(&mut driver, &mut device);
    device.disable_notification();
    let thread = thread::spawn(move || {
        offer(&mut driver);
        driver.kick_prepare()
    });
    let awake = device.enable_notification();
    let kicked = thread.join().unwrap();
    assert!(awake || kicked);
}

#[test]
fn split_kick_is_not_lost() {
    for event_idx in EVENT_IDX {
        loom::model(move || {
            let (driver, device, _) = split(event_idx);
            kick_is_not_lost(driver, device);
        });
    }
}

#[test]
fn packed_kick_is_not_lost() {
    for event_idx in EVENT_IDX {
        loom::model(move || {
            let (driver, device, _) = packed(event_idx);
            kick_is_not_lost(driver, device);
        });
    }
}

/// A driver that goes to sleep is notified, or finds the used buffer itself.
fn call_is_not_lost<S, V>(mut driver: Driver<u64, S, Model>, mut device: V)
where
    S: Side<Memory: Send> + 'static + Send,
    V: DeviceQueue + 'static + Send,
{
    turn(&mut driver, &mut device);
    driver.disable_cb();
    offer(&mut driver);
    let thread = thread::spawn(move || {
        assert!(take(&mut device));
        device.needs_notification()
    });
    let asleep = driver.enable_cb();
    let called = thread.join().unwrap();
    assert!(!asleep || called);
}

#[test]
fn split_call_is_not_lost() {
    for event_idx in EVENT_IDX {
        loom::model(move || {
            let (driver, device, _) = split(event_idx);
            call_is_not_lost(driver, device);
        });
    }
}

#[test]
fn packed_call_is_not_lost() {
    for event_idx in EVENT_IDX {
        loom::model(move || {
            let (driver, device, _) = packed(event_idx);
            call_is_not_lost(driver, device);
        });
    }
}

/// A poller on a third thread sees a buffer that was used earlier, even if the driver side meanwhile consumes it and
/// does `then`.
fn poll_misses_nothing<S, V, R>(
    (mut driver, mut device, poller): (Driver<u64, S, Model>, V, QueuePoller<R, Model>),
    then: impl FnOnce(&mut Driver<u64, S, Model>, &mut V),
) where
    S: Side<Memory: Send> + 'static + Send,
    V: DeviceQueue + 'static + Send,
    R: Ring + 'static + Send,
{
    driver.disable_cb();
    let token = poller.token();
    offer(&mut driver);
    assert!(take(&mut device));
    // The buffer is already used. From here on, it may be consumed and offered again at any time.
    let thread = thread::spawn(move || assert!(poller.poll(token)));
    driver.get_used().unwrap().unwrap();
    then(&mut driver, &mut device);
    thread.join().unwrap();
}

/// Sends buffers to the device and back for one lap of the ring, and then offers one more.
fn lap(driver: &mut Driver<u64, impl Side, impl Brand>, device: &mut impl DeviceQueue) {
    for _ in 0..SIZE {
        turn(driver, device);
    }
    offer(driver);
}

#[test]
fn split_poll_misses_nothing() {
    loom::model(|| {
        poll_misses_nothing(split(false), lap);
    });
}

#[test]
fn packed_poll_misses_nothing() {
    loom::model(|| {
        poll_misses_nothing(packed(false), lap);
    });
}

/// Like the previous test, but the slot comes back in the middle of a chain, where its flags do not publish the chain.
#[test]
fn packed_poll_misses_nothing_of_a_slot_inside_a_chain() {
    loom::model(|| {
        poll_misses_nothing(packed(false), |driver, _| {
            // The chain starts at the second slot, so its second piece is in the slot where the token looks.
            driver.add(&[], &[Buffer::new(0, 8); 2], 1).unwrap();
        });
    });
}

/// While the driver side takes the first buffer of a batch, a poller on a third thread sees that buffers wait: the
/// whole batch, or the remaining buffers, which the ring does not show.
#[test]
fn packed_poll_sees_the_rest_of_a_batch() {
    loom::model(|| {
        let (mut driver, mut device, poller) = packed_with(Features {
            in_order: true,
            ..Features::default()
        });
        driver.disable_cb();
        let mut chain = Chain::with_capacity(2);
        for _ in 0..SIZE {
            offer(&mut driver);
        }
        let heads: Vec<_> = (0..SIZE)
            .map(|_| (device.pop(&mut chain).unwrap().unwrap(), 8))
            .collect();
        device.add_used_batch(heads).unwrap();
        let thread = thread::spawn(move || assert!(poller.poll(poller.token())));
        driver.get_used().unwrap().unwrap();
        thread.join().unwrap();
    });
}
