//! Event suppression on both sides, by flags and by event index, including wrap boundaries.

use super::*;

/// Sends `batch` buffers round; returns whether an available and a used buffer notification are needed.
fn notifications(
    driver: &mut Driver<u64, impl Side, impl Brand>,
    device: &mut impl DeviceQueue,
    batch: u64,
) -> (bool, bool) {
    for data in 0..batch {
        offer(driver, data);
    }
    let kick = driver.kick_prepare();
    assert_eq!(serve(device), batch);
    let call = device.needs_notification();
    while driver.get_used().unwrap().is_some() {}
    (kick, call)
}

struct Everything;

impl Test for Everything {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        let (driver, device) = (&mut driver, &mut device);
        // On a new queue all notifications are enabled.
        assert_eq!(notifications(driver, device, 1), (true, true), "{about}");
        for round in 0..100 {
            let batch = round % 3 + 1;
            driver.disable_cb();
            device.disable_notification();
            assert_eq!(
                notifications(driver, device, batch),
                (false, false),
                "{about}"
            );
            assert!(
                driver.enable_cb() && !device.enable_notification(),
                "{about}"
            );
            assert_eq!(
                notifications(driver, device, batch),
                (true, true),
                "{about} {round}"
            );
            assert!(
                !driver.kick_prepare() && !device.needs_notification(),
                "nothing new"
            );
        }
    }
}

#[test]
fn each_side_notifies_while_the_other_wants_it() {
    everywhere(&[8], &Everything);
    packed(7, EVENT_IDX, &Everything);
    packed(3, PLAIN, &Everything);
}

struct FirstOnly;

impl Test for FirstOnly {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        // Goes around the ring and over all wrap boundaries: each request gives one notification.
        for _ in 0..70_000 {
            assert!(!device.enable_notification());
            offer(&mut driver, 0);
            assert!(driver.kick_prepare(), "{about}: it was asked for");
            offer(&mut driver, 1);
            assert!(!driver.kick_prepare(), "{about}: that was not");
            assert_eq!(serve(&mut device), 2);
            assert!(device.needs_notification(), "{about}: both in one");
            while driver.get_used().unwrap().is_some() {}
        }
    }
}

#[test]
fn event_index_is_good_for_one_notification() {
    for size in [2, 4, 256] {
        split(size, EVENT_IDX, &FirstOnly);
    }
    for size in [2, 3, 7, 256] {
        packed(size, EVENT_IDX, &FirstOnly);
    }
}

struct LongSilence;

impl Test for LongSilence {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        // Both sides enable the next notification. Its event index looks like that of the lap before.
        turn(&mut driver, &mut device, 65_535);
        assert!(!device.enable_notification(), "{about}");
        assert!(
            !driver.kick_prepare() && !device.needs_notification(),
            "{about}: neither has come to the event"
        );
        turn(&mut driver, &mut device, 65_536);
        assert!(
            driver.kick_prepare() && device.needs_notification(),
            "{about}: the event was on the way"
        );
    }
}

#[test]
fn lap_of_the_indices_without_a_look_crosses_the_event() {
    split(256, EVENT_IDX, &LongSilence);
}

struct Recheck;

impl Test for Recheck {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        driver.disable_cb();
        offer(&mut driver, 1);
        assert!(device.enable_notification(), "{about}: a chain waits");
        serve(&mut device);
        assert!(!device.enable_notification(), "{about}");
        assert!(!driver.enable_cb(), "{about}: a buffer waits");
        driver.get_used().unwrap().unwrap();
        assert!(driver.enable_cb(), "{about}");
    }
}

#[test]
fn whoever_asks_to_be_notified_learns_what_waits_already() {
    everywhere(&[1, 2, 5], &Recheck);
}

struct Delayed;

impl Test for Delayed {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        let mut chain = Chain::with_capacity(8);
        for round in 0..100 {
            for data in 0..8 {
                offer(&mut driver, data);
            }
            assert!(driver.enable_cb_delayed(), "{about}");
            for done in 1..=8 {
                let head = device.pop(&mut chain).unwrap().unwrap();
                device.add_used(head, 0).unwrap();
                // More than three quarters of the eight are used.
                assert_eq!(
                    device.needs_notification(),
                    done == 7,
                    "{about} {round} {done}"
                );
            }
            assert!(!driver.enable_cb_delayed(), "{about}: all of them wait");
            while driver.get_used().unwrap().is_some() {}
        }
    }
}

#[test]
fn delayed_notification_comes_after_three_quarters() {
    split(8, EVENT_IDX, &Delayed);
    packed(8, EVENT_IDX, &Delayed);
    packed(11, EVENT_IDX, &Delayed);
}

struct DelayedPast;

impl Test for DelayedPast {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        let pieces = [BUFFER; 3];
        for round in 0..100 {
            for data in 0..2 {
                driver.add(&pieces, &[], data).unwrap();
            }
            // All buffers are used before the driver enables notifications, so no notification would follow. On a
            // packed ring, the device marks only the first of three slots, and the event is in the second.
            assert_eq!(serve(&mut device), 2);
            assert!(!driver.enable_cb_delayed(), "{about} {round}");
            while driver.get_used().unwrap().is_some() {}
            assert!(driver.enable_cb_delayed(), "{about} {round}: nothing waits");
        }
    }
}

#[test]
fn delayed_notification_that_chains_stepped_over_is_not_waited_for() {
    split(8, EVENT_IDX, &DelayedPast);
    for size in [6, 7, 8] {
        packed(size, EVENT_IDX, &DelayedPast);
        packed(size, PLAIN, &DelayedPast);
    }
}

struct BatchTakenInPart;

impl Test for BatchTakenInPart {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        for round in 0..30 {
            for data in 0..3 {
                offer(&mut driver, data);
            }
            assert_eq!(serve_at_once(&mut device, 3), 3);
            for data in 0..3 {
                let token = driver.enable_cb_prepare::<Token<_>>();
                let opaque = driver.enable_cb_prepare::<Opaque<_>>();
                let answers = [
                    driver.poll(token),
                    driver.poll(opaque),
                    driver.poller().poll(token),
                    driver.poller().poll(opaque),
                    !driver.enable_cb(),
                    !driver.enable_cb_delayed(),
                ];
                assert_eq!(answers, [true; 6], "{about} {round}: {data} waits");
                assert_eq!(driver.get_used().unwrap().unwrap().data, data, "{about}");
            }
            assert!(driver.enable_cb() && driver.enable_cb_delayed(), "{about}");
        }
    }
}

#[test]
fn batch_that_is_partly_taken_is_seen() {
    everywhere(&[4, 8], &BatchTakenInPart);
    packed(3, IN_ORDER, &BatchTakenInPart);
    packed(7, IN_ORDER, &BatchTakenInPart);
}

/// The device gives back `batch` buffers at a time and interrupts as the driver asks. The driver takes `budget` of them
/// before it asks whether it may sleep.
struct Budget {
    batch: u16,
    budget: u64,
    /// Whether the driver enables a delayed notification.
    is_delayed: bool,
}

impl Test for Budget {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        let (mut offered, mut taken) = (0, 0);
        let mut is_asleep = false;
        while taken < 200 {
            while driver.free() > 0 {
                offer(&mut driver, offered);
                offered += 1;
            }
            loop {
                let given_back = serve_at_once(&mut device, self.batch);
                if device.needs_notification() || !is_asleep {
                    break;
                }
                assert!(given_back > 0, "{about}, {taken} taken: both sleep");
            }
            driver.disable_cb();
            for _ in 0..self.budget {
                let Some(used) = driver.get_used().unwrap() else {
                    break;
                };
                assert_eq!(used.data, taken, "{about}");
                taken += 1;
            }
            is_asleep = if self.is_delayed {
                driver.enable_cb_delayed()
            } else {
                driver.enable_cb()
            };
        }
    }
}

#[test]
fn driver_with_a_budget_and_device_with_batches_do_not_both_sleep() {
    for batch in 1..=4 {
        for budget in 1..=4 {
            for is_delayed in [false, true] {
                let test = Budget {
                    batch,
                    budget,
                    is_delayed,
                };
                everywhere(&[4], &test);
                packed(5, IN_ORDER, &test);
            }
        }
    }
}

struct TakenInPart;

impl Test for TakenInPart {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        let mut chain = Chain::with_capacity(1);
        for data in 0..2 {
            offer(&mut driver, data);
        }
        let head = device.pop(&mut chain).unwrap().unwrap();
        device.add_used(head, 0).unwrap();
        assert!(device.enable_notification(), "{about}: one is left");
        assert_eq!(serve(&mut device), 1);
        assert!(!device.enable_notification(), "{about}: none is");
    }
}

#[test]
fn device_that_leaves_chains_learns_that_they_wait() {
    everywhere(&[2, 5], &TakenInPart);
}

#[test]
fn split_driver_writes_the_event_before_it_looks_and_no_flag() {
    let (memory, layout) = (memory(), SplitLayout::contiguous(0, 4));
    let (flags, event) = (layout.avail, layout.avail + 4 + 2 * 4);
    brand::scoped(|brand| {
        let mut driver = SplitDriver::new(&memory, &layout, EVENT_IDX, brand).unwrap();
        let mut device = SplitDevice::new(&memory, &layout, EVENT_IDX).unwrap();
        turn(&mut driver, &mut device, 3);
        assert_eq!(
            memory.get16(event),
            3,
            "moves on while notifications are on"
        );
        driver.disable_cb();
        turn(&mut driver, &mut device, 2);
        assert_eq!(memory.get16(event), 3 ^ 0x8000, "out of the way");
        driver.enable_cb_prepare::<Opaque<_>>();
        assert_eq!((memory.get16(event), memory.get16(flags)), (5, 0));
    });
    brand::scoped(|brand| {
        let mut driver = SplitDriver::<u64, _, _>::new(&memory, &layout, PLAIN, brand).unwrap();
        driver.disable_cb();
        assert_eq!((memory.get16(event), memory.get16(flags)), (0, 1));
        driver.enable_cb_prepare::<Opaque<_>>();
        assert_eq!((memory.get16(event), memory.get16(flags)), (0, 0));
    });
}

#[test]
fn split_device_writes_the_event_behind_the_used_ring() {
    let (memory, layout) = (memory(), SplitLayout::contiguous(0, 4));
    let event = layout.used + 4 + 8 * 4;
    brand::scoped(|brand| {
        let mut driver = SplitDriver::new(&memory, &layout, EVENT_IDX, brand).unwrap();
        let mut device = SplitDevice::new(&memory, &layout, EVENT_IDX).unwrap();
        turn(&mut driver, &mut device, 3);
        device.enable_notification();
        assert_eq!(memory.get16(event), 3);
    });
}

#[test]
fn packed_driver_writes_offset_wrap_and_flags() {
    let (memory, layout) = (memory(), PackedLayout::contiguous(0, 3));
    let (off_wrap, flags) = (layout.driver_event, layout.driver_event + 2);
    let event = || (memory.get16(off_wrap), memory.get16(flags));
    brand::scoped(|brand| {
        let mut driver = PackedDriver::new(&memory, &layout, EVENT_IDX, brand).unwrap();
        let mut device = PackedDevice::new(&memory, &layout, EVENT_IDX).unwrap();
        assert_eq!(event(), (0, 0));
        driver.enable_cb_prepare::<Opaque<_>>();
        assert_eq!(event(), (1 << 15, 2));
        turn(&mut driver, &mut device, 2);
        assert_eq!(
            event(),
            (2 | 1 << 15, 2),
            "moves on while notifications are on"
        );
        turn(&mut driver, &mut device, 1);
        assert_eq!(event(), (0, 2), "the second lap");
        driver.disable_cb();
        assert_eq!(event().1, 1);
        turn(&mut driver, &mut device, 1);
        assert_eq!(event().1, 1, "stays off");
    });
}

#[test]
fn new_packed_driver_asks_for_all_until_it_asks_for_one() {
    let (memory, layout) = (memory(), PackedLayout::contiguous(0, 3));
    brand::scoped(|brand| {
        let mut driver = PackedDriver::new(&memory, &layout, EVENT_IDX, brand).unwrap();
        let mut device = PackedDevice::new(&memory, &layout, EVENT_IDX).unwrap();
        turn(&mut driver, &mut device, 2);
        assert_eq!(memory.get16(layout.driver_event + 2), 0);
    });
}

#[test]
fn contiguous_packed_ring_has_its_events_behind_the_descriptors() {
    let layout = PackedLayout::contiguous(0x1000, 256);
    let (driver, device, end) = (layout.driver_event, layout.device_event, layout.end());
    assert_eq!((driver, device, end), (0x2000, 0x2004, 0x2008));
}

#[test]
fn legacy_layout_aligns_the_used_ring() {
    let layout = SplitLayout::legacy(0, 256, 4096);
    assert_eq!((layout.avail, layout.used), (4096, 8192));
    let layout = SplitLayout::contiguous(0, 256);
    assert_eq!(
        (layout.avail, layout.used, layout.end()),
        (4096, 4616, 6670)
    );
}
