//! The results of polling, in particular when an index wraps between two polls.

use super::*;

const PROBING: Status = Status(1 | 2 | 8);

macro_rules! test {
    ($name:ident, |$driver:ident, $device:ident, $about:ident| $body:block) => {
        struct $name;
        impl Test for $name {
            #[allow(unused_mut, unused_variables)]
            fn run(&self, mut $driver: Driver<u64, impl Side, impl Brand>, mut $device: impl DeviceQueue, $about: &str) $body
        }
    };
}

#[test]
fn poll_is_true_exactly_if_something_was_used_or_consumed() {
    test!(Body, |driver, device, about| {
        let (opaque, token) = (
            driver.enable_cb_prepare::<Opaque<_>>(),
            driver.enable_cb_prepare::<Token<_>>(),
        );
        assert!(!driver.poll(opaque) && !driver.poll(token), "{about}");
        offer(&mut driver, 1);
        assert!(!driver.poll(opaque) && !driver.poll(token), "{about}");
        serve(&mut device);
        assert!(driver.poll(opaque) && driver.poll(token), "{about}");
        driver.get_used().unwrap().unwrap();
        assert!(driver.poll(token), "{about}: consumed");
        let (opaque, token) = (
            driver.enable_cb_prepare::<Opaque<_>>(),
            driver.enable_cb_prepare::<Token<_>>(),
        );
        assert!(!driver.poll(opaque) && !driver.poll(token), "{about}");
    });
    everywhere(&[1, 2, 7, 256], &Body);
}

#[test]
fn exactly_65536_consumed_buffers_fool_only_the_plain_opaque_value() {
    test!(Body, |driver, device, about| {
        let (opaque, token) = (
            driver.enable_cb_prepare::<Opaque<_>>(),
            driver.enable_cb_prepare::<Token<_>>(),
        );
        turn(&mut driver, &mut device, 65_535);
        assert!(driver.poll(opaque) && driver.poll(token), "{about}: 65,535");
        turn(&mut driver, &mut device, 1);
        assert!(!driver.poll(opaque), "{about}: the index came round");
        assert!(driver.poll(token), "{about}: 65,536");
        turn(&mut driver, &mut device, 1);
        assert!(driver.poll(opaque) && driver.poll(token), "{about}: 65,537");
    });
    split(256, PLAIN, &Body);
    split(256, EVENT_IDX, &Body);
}

#[test]
fn exactly_65536_consumed_buffers_do_not_fool_wrap_counters() {
    test!(Body, |driver, device, about| {
        driver.use_wrap_counter(PROBING).unwrap();
        let opaque = driver.enable_cb_prepare::<Opaque<_>>();
        for count in [65_535, 1, 1] {
            turn(&mut driver, &mut device, count);
            assert!(driver.poll(opaque), "{about}");
        }
    });
    split(256, PLAIN, &Body);
    packed(256, PLAIN, &Body);
    packed(7, EVENT_IDX, &Body);
}

#[test]
fn wraps_fool_after_2_to_the_32_buffers_and_64_bits_do_not() {
    test!(Body, |driver, device, about| {
        driver.use_wrap_counter(PROBING).unwrap();
        let (opaque, token) = (
            driver.enable_cb_prepare::<Opaque<_>>(),
            driver.enable_cb_prepare::<Token<_>>(),
        );
        driver.skip_laps(0xfffe);
        assert!(driver.poll(opaque) && driver.poll(token), "{about}");
        driver.skip_laps(2);
        assert!(!driver.poll(opaque), "{about}: the documented horizon");
        assert!(driver.poll(token), "{about}");
    });
    split(256, PLAIN, &Body);
    packed(256, PLAIN, &Body);
}

/// A queue, with or without wrap counters.
struct Recycled(bool);

impl Test for Recycled {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        let Self(wraps) = *self;
        if wraps {
            driver.use_wrap_counter(PROBING).unwrap();
        }
        let size = u64::from(driver.free());
        let (opaque, token) = (
            driver.enable_cb_prepare::<Opaque<_>>(),
            driver.enable_cb_prepare::<Token<_>>(),
        );
        // The driver consumes the slot of the tokens and the other slots of the lap.
        turn(&mut driver, &mut device, size);
        assert!(driver.poll(token), "{about}");
        // The slot is offered again.
        offer(&mut driver, 2);
        assert_eq!(driver.poll(opaque), wraps, "{about}");
        assert!(driver.poll(token), "{about}");
    }
}

#[test]
fn slot_recycled_within_a_lap_fools_only_the_plain_opaque_value() {
    for size in [1, 4, 7, 256] {
        packed(size, PLAIN, &Recycled(false));
        packed(size, PLAIN, &Recycled(true));
        packed(size, EVENT_IDX, &Recycled(true));
    }
}

struct OneCompletion;

impl Test for OneCompletion {
    fn run(
        &self,
        mut driver: Driver<u64, impl Side, impl Brand>,
        mut device: impl DeviceQueue,
        about: &str,
    ) {
        // On a ring with one slot, this happens after a single used buffer.
        let (opaque, token) = (
            driver.enable_cb_prepare::<Opaque<_>>(),
            driver.enable_cb_prepare::<Token<_>>(),
        );
        turn(&mut driver, &mut device, 1);
        offer(&mut driver, 2);
        assert!(!driver.poll(opaque) && driver.poll(token), "{about}");
    }
}

#[test]
fn one_completion_is_enough_to_fool_the_plain_opaque_value() {
    packed(1, PLAIN, &OneCompletion);
}

#[test]
fn two_laps_fool_only_the_plain_opaque_value() {
    test!(Body, |driver, device, about| {
        let size = u64::from(driver.free());
        let (plain, token) = (
            driver.enable_cb_prepare::<Opaque<_>>(),
            driver.enable_cb_prepare::<Token<_>>(),
        );
        turn(&mut driver, &mut device, 2 * size);
        assert!(!driver.poll(plain) && driver.poll(token), "{about}");
    });
    packed(5, PLAIN, &Body);
    packed(1, PLAIN, &Body);
    packed(256, PLAIN, &Body);
}

#[test]
fn wrap_counter_in_the_opaque_value_goes_up_when_the_index_comes_round() {
    test!(Body, |driver, device, about| {
        assert_eq!(
            driver.enable_cb_prepare::<Opaque<_>>().value() >> 16,
            0,
            "{about}"
        );
        driver.skip_laps(1);
        assert_eq!(
            driver.enable_cb_prepare::<Opaque<_>>().value() >> 16,
            0,
            "{about}: off"
        );
        driver.use_wrap_counter(PROBING).unwrap();
        assert_eq!(
            driver.enable_cb_prepare::<Opaque<_>>().value() >> 16,
            1,
            "{about}: on"
        );
        turn(&mut driver, &mut device, 0xffff);
        assert_eq!(
            driver.enable_cb_prepare::<Opaque<_>>().value(),
            0x0001_ffff,
            "{about}"
        );
        turn(&mut driver, &mut device, 1);
        assert_eq!(
            driver.enable_cb_prepare::<Opaque<_>>().value(),
            0x0002_0000,
            "{about}"
        );
    });
    split(256, PLAIN, &Body);
}

#[test]
fn bits_of_the_device_status_add_up() {
    let found = Status::ACKNOWLEDGE.with(Status::DRIVER);
    assert_eq!(found, Status(1 | 2));
    assert_eq!(found.with(Status::DRIVER), found);
    assert!(found.has(Status::DRIVER) && !found.has(Status::DRIVER.with(Status::DRIVER_OK)));
}

#[test]
fn wrap_counters_can_be_chosen_until_driver_ok() {
    test!(Body, |driver, device, about| {
        let refused = |status| Err(WrapCounterError::Status { status });
        assert_eq!(driver.use_wrap_counter(Status(0)), refused(0), "{about}");
        for status in [1 | 2, 1 | 2 | 8, 1 | 2 | 8 | 64] {
            assert_eq!(driver.use_wrap_counter(Status(status)), Ok(()), "{about}");
        }
        for status in [4, 1 | 2 | 4, 1 | 2 | 4 | 8] {
            assert_eq!(
                driver.use_wrap_counter(Status(status)),
                refused(status),
                "{about}"
            );
        }
        let error = driver.use_wrap_counter(Status(4)).unwrap_err();
        assert_eq!(error.errno(), libc::EBUSY);
    });
    everywhere(&[4], &Body);
}

#[test]
fn reset_takes_wraps_and_their_flag_with_it_and_tells_old_tokens() {
    test!(Body, |driver, device, about| {
        driver.use_wrap_counter(PROBING).unwrap();
        turn(&mut driver, &mut device, 9);
        driver.skip_laps(2);
        let token = driver.enable_cb_prepare::<Token<_>>();
        assert!(!driver.poll(token));
        driver.reset();
        assert!(driver.poll(token), "{about}");
        let value = driver.enable_cb_prepare::<Opaque<_>>().value();
        assert!(value == 0 || value == 0x8000, "{about}: {value:#x}");
        driver.skip_laps(2);
        assert_eq!(
            driver.enable_cb_prepare::<Opaque<_>>().value() >> 16,
            0,
            "{about}"
        );
    });
    split(4, PLAIN, &Body);
    packed(4, PLAIN, &Body);
}

#[test]
fn other_threads_poll_without_the_queue() {
    let (memory, layout) = (memory(), SplitLayout::contiguous(0, 256));
    let packed_layout = PackedLayout::contiguous(0x8000, 256);
    brand::scoped(|brand| {
        let driver = SplitDriver::new(&memory, &layout, PLAIN, brand).unwrap();
        let device = SplitDevice::new(&memory, &layout, PLAIN).unwrap();
        let poller = driver.poller();
        poll_from_afar(driver, device, &poller);
    });
    brand::scoped(|brand| {
        let driver = PackedDriver::new(&memory, &packed_layout, PLAIN, brand).unwrap();
        let device = PackedDevice::new(&memory, &packed_layout, PLAIN).unwrap();
        let poller = driver.poller();
        poll_from_afar(driver, device, &poller);
    });
}

/// A poller on another thread follows the queue: it sees each move of the queue, and at the end sees nothing new.
fn poll_from_afar<S, B, R>(
    mut driver: Driver<u64, S, B>,
    mut device: impl DeviceQueue + Send,
    poller: &QueuePoller<R, B>,
) where
    S: Side<Memory: Send> + Send,
    B: Brand + Send + Sync,
    R: Ring + Sync,
{
    let first = poller.token();
    driver.use_wrap_counter(PROBING).unwrap();
    let opaque = driver.enable_cb_prepare::<Opaque<_>>();
    assert!(!poller.poll(opaque), "there was nothing yet");
    std::thread::scope(|scope| {
        let work = scope.spawn(move || {
            turn(&mut driver, &mut device, 30_000);
            driver.enable_cb_prepare::<Opaque<_>>()
        });
        let mut token = first;
        while !work.is_finished() {
            if poller.poll(token) {
                assert!(poller.token().position() >= token.position());
                token = poller.token();
            }
        }
        let last = work.join().unwrap();
        assert!(poller.poll(opaque) && poller.poll(first) && poller.token() != first);
        let new = poller.poll(last) || poller.poll(poller.token());
        assert!(!new, "everything is consumed");
    });
}

#[test]
fn poller_in_debug_output_says_how_far_the_queue_has_consumed() {
    let (memory, layout) = (memory(), SplitLayout::contiguous(0, 4));
    brand::scoped(|brand| {
        let mut driver = SplitDriver::new(&memory, &layout, PLAIN, brand).unwrap();
        let mut device = SplitDevice::new(&memory, &layout, PLAIN).unwrap();
        turn(&mut driver, &mut device, 3);
        let shown = format!("{:?}", driver.poller());
        assert!(shown.contains("position: 3"), "{shown}");
    });
}
