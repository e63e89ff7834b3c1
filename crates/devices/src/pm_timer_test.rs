use super::*;
use crate::wait::await_that;

#[test]
fn second_is_its_frequency() {
    assert_eq!(ticks(Duration::ZERO), 0);
    assert_eq!(ticks(Duration::from_secs(1)), 3_579_545);
    assert_eq!(ticks(Duration::from_millis(500)), 1_789_772);
}

#[test]
fn it_wraps_after_24_bits_and_never_shows_more() {
    let round = Duration::from_nanos((1 << 24) * 1_000_000_000 / 3_579_545);
    assert_eq!(ticks(round), 0xff_ffff);
    assert_eq!(ticks(round + Duration::from_nanos(100)), 0);
    assert!(ticks(Duration::MAX) <= 0xff_ffff);
}

#[test]
fn it_goes_on_between_reads() {
    let timer = PmTimer::new();
    let mut first = [0; 4];
    timer.read(0, &mut first);
    let mut second = first;
    await_that("the next tick", || {
        timer.read(0, &mut second);
        second != first
    });
    assert_eq!((first[3], second[3]), (0, 0), "24 bits");
}

#[test]
fn offsets_behind_the_register_read_zeros() {
    let mut data = [0xaa; 4];
    PmTimer::new().read(u64::MAX, &mut data);
    assert_eq!(data, [0; 4]);
}
