use super::*;
use crate::virtqueue::{
    Features, HostMemory, PackedDriver, PackedLayout, SplitDriver, SplitLayout, brand,
};

/// The wraps in the opaque value after the index came round, before a reset and after it.
fn wraps<D: DriverQueue<Data = u64> + DriverControl<Data = u64>>(
    queue: D,
    tokens: Tokens,
    come_round: impl Fn(&mut D),
) -> [u32; 2] {
    let options = Options {
        tokens,
        ..Options::default()
    };
    let mut driver = Driver::new(queue, options, 0).unwrap();
    let mut wraps = || {
        come_round(&mut driver.queue);
        let wraps = driver.queue.enable_cb_prepare().value() >> 16;
        driver.reset().unwrap();
        wraps
    };
    [wraps(), wraps()]
}

fn split(tokens: Tokens) -> [u32; 2] {
    let (memory, layout) = (HostMemory::new(4096), SplitLayout::contiguous(0, 4));
    brand::scoped(|brand| {
        let queue = SplitDriver::new(&memory, &layout, Features::default(), brand).unwrap();
        wraps(queue, tokens, |queue| queue.skip_laps(2))
    })
}

fn packed(tokens: Tokens) -> [u32; 2] {
    let (memory, layout) = (HostMemory::new(4096), PackedLayout::contiguous(0, 4));
    brand::scoped(|brand| {
        let queue = PackedDriver::new(&memory, &layout, Features::default(), brand).unwrap();
        wraps(queue, tokens, |queue| queue.skip_laps(2))
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
