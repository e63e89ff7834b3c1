use super::super::device::drain;
use super::*;
use vmbell_virtqueue::{
    Brand, Chain, DeviceQueue, Driver, Features, HostMemory, PackedDevice, PackedDriver,
    PackedLayout, Side, SplitDevice, SplitDriver, SplitLayout, brand,
};

/// The number of descriptors in the rings.
const SIZE: u16 = 4;

/// Takes the ring's index around twice, with `lap` buffers each time.
fn come_round(
    driver: &mut Driver<u64, impl Side, impl Brand>,
    mut device: impl DeviceQueue,
    lap: u64,
) {
    let buffer = [Buffer::new(0, BUFFER_LEN)];
    let mut chain = Chain::with_capacity(SIZE.into());
    for number in 0..2 * lap {
        driver.add(&buffer, &[], number).unwrap();
        driver.kick_prepare();
        assert!(drain(&mut device, &mut chain).unwrap());
        assert!(driver.get_used().unwrap().is_some());
    }
}

/// The wraps in the opaque value after the index has come around, before a reset and after it.
fn wraps<S: Side, B: Brand, V: DeviceQueue>(
    queue: Driver<u64, S, B>,
    take: impl Fn() -> V,
    lap: u64,
    tokens: Tokens,
) -> [u32; 2] {
    let options = WorkloadOptions {
        tokens,
        ..WorkloadOptions::default()
    };
    let mut driver = WorkloadDriver::new(queue, options, 0).unwrap();
    let mut wraps = || {
        come_round(&mut driver.queue, take(), lap);
        let wraps = driver.queue.enable_cb_prepare::<Opaque<_>>().value() >> 16;
        driver.reset().unwrap();
        wraps
    };
    [wraps(), wraps()]
}

fn split(tokens: Tokens) -> [u32; 2] {
    let (memory, layout) = (HostMemory::new(4096), SplitLayout::contiguous(0, SIZE));
    let features = Features::default();
    brand::scoped(|brand| {
        let queue = SplitDriver::new(&memory, &layout, features, brand).unwrap();
        let ring = queue.ring().clone();
        let take = || SplitDevice::over(ring.clone(), features);
        wraps(queue, take, 1 << 16, tokens)
    })
}

fn packed(tokens: Tokens) -> [u32; 2] {
    let (memory, layout) = (HostMemory::new(4096), PackedLayout::contiguous(0, SIZE));
    let features = Features::default();
    brand::scoped(|brand| {
        let queue = PackedDriver::new(&memory, &layout, features, brand).unwrap();
        let ring = queue.ring().clone();
        let take = || PackedDevice::over(ring.clone(), features);
        wraps(queue, take, SIZE.into(), tokens)
    })
}

#[test]
fn wraps_are_counted_again_from_zero_after_a_reset() {
    assert_eq!(split(Tokens::WrapCounters), [2, 2]);
    assert_eq!(packed(Tokens::WrapCounters), [2, 2]);
}

#[test]
fn wraps_are_not_counted_unasked() {
    for tokens in [Tokens::Plain, Tokens::Wide] {
        assert_eq!([split(tokens), packed(tokens)], [[0; 2]; 2]);
    }
}

#[test]
fn the_device_refuses_a_buffer_that_did_not_arrive_as_it_was_sent() {
    let (memory, layout) = (HostMemory::new(4096), SplitLayout::contiguous(0, SIZE));
    let features = Features::default();
    for (readable, writable, is_refused) in [
        (BUFFER_LEN, None, false),
        (BUFFER_LEN - 1, None, true),
        (BUFFER_LEN + 1, None, true),
        (BUFFER_LEN, Some(1), true),
    ] {
        brand::scoped(|brand| {
            let mut queue = SplitDriver::new(&memory, &layout, features, brand).unwrap();
            let mut device = SplitDevice::over(queue.ring().clone(), features);
            let writable: Vec<Buffer> = writable
                .map(|len| Buffer::new(2048, len))
                .into_iter()
                .collect();
            queue
                .add(&[Buffer::new(0, readable)], &writable, 0_u64)
                .unwrap();
            queue.kick_prepare();
            let drained = drain(&mut device, &mut Chain::with_capacity(SIZE.into()));
            match drained {
                Ok(any) => assert!(any && !is_refused, "{readable} {writable:?}"),
                Err(error) => {
                    assert!(is_refused, "{readable} {writable:?}: {error}");
                    let told = format!(
                        "a buffer arrived with {readable} readable bytes, or with writable ones"
                    );
                    assert_eq!(error.to_string(), told);
                }
            }
        });
    }
}
