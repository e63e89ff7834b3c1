use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use kit::wait::await_that;

const STATUS: u64 = 0;
const ENABLE: u64 = 2;
const CONTROL: u64 = 4;

/// What the registers reported.
#[derive(Clone, Debug, Default)]
struct Told {
    sci: Arc<Mutex<Vec<bool>>>,
    sleeps: Arc<Mutex<Vec<Sleep>>>,
}

fn pm1() -> (Pm1, Told) {
    let told = Told::default();
    let Told { sci, sleeps } = told.clone();
    let pm1 = Pm1::new(
        move |level| sci.lock().push(level),
        move |sleep| sleeps.lock().push(sleep),
    );
    (pm1, told)
}

fn read(pm1: &Pm1, offset: u64) -> u16 {
    let mut data = [0xaa; 2];
    pm1.read(offset, &mut data);
    u16::from_le_bytes(data)
}

fn write(pm1: &Pm1, offset: u64, value: u16) {
    pm1.write(offset, &value.to_le_bytes());
}

#[test]
fn event_interrupts_while_it_is_enabled_and_until_it_is_cleared() {
    let (pm1, told) = pm1();
    pm1.raise_rtc();
    assert_eq!(read(&pm1, STATUS), RTC);
    assert!(told.sci.lock().is_empty());
    write(&pm1, ENABLE, RTC);
    write(&pm1, STATUS, !RTC);
    assert_eq!(read(&pm1, STATUS), RTC, "zeros clear nothing");
    write(&pm1, STATUS, RTC);
    assert_eq!(read(&pm1, STATUS), 0);
    assert_eq!(*told.sci.lock(), [true, false]);
}

#[test]
fn sleep_starts_with_its_bit_and_has_its_kind() {
    let (pm1, told) = pm1();
    write(&pm1, CONTROL, 0x0400);
    assert!(told.sleeps.lock().is_empty());
    assert_eq!(read(&pm1, CONTROL), 0x0401, "the kind stays");
    write(&pm1, CONTROL, 0x2400);
    pm1.write(CONTROL + 1, &[0x20]);
    pm1.write(CONTROL, &[0xff]);
    // A sleep type that the DSDT does not offer.
    write(&pm1, CONTROL, 0x3c00);
    assert_eq!(*told.sleeps.lock(), [Sleep::S3, Sleep::S5]);
    assert_eq!(read(&pm1, CONTROL) & SLEEP, 0, "it reads as 0");
}

#[test]
fn four_bytes_are_status_and_enable_at_once() {
    let (pm1, _) = pm1();
    pm1.raise_rtc();
    pm1.write(
        STATUS,
        &u32::from_le_bytes([0, 0x04, 0xff, 0xff]).to_le_bytes(),
    );
    let mut data = [0; 8];
    pm1.read(STATUS, &mut data);
    let [low, high] = ENABLES.to_le_bytes();
    assert_eq!(data, [0, 0, low, high, 1, 0, 0, 0]);
}

#[test]
fn registers_end_where_they_end() {
    let (pm1, told) = pm1();
    pm1.write(CONTROL + 2, &[0xff]);
    pm1.write(u64::MAX, &[0xff, 0xff]);
    assert_eq!(read(&pm1, u64::MAX), 0);
    assert!(told.sleeps.lock().is_empty());
}

#[test]
fn waiting_ends_by_an_event_that_is_enabled_or_by_the_limit() {
    let (pm1, _) = pm1();
    pm1.raise_rtc();
    assert!(!pm1.wait_for_wake(|| true));
    assert_eq!(read(&pm1, STATUS) & WAKE, 0);
    write(&pm1, STATUS, RTC);
    write(&pm1, ENABLE, RTC);
    let clock = pm1.clone();
    let thread = std::thread::spawn(move || clock.raise_rtc());
    let begun = std::time::Instant::now();
    let hangs = || begun.elapsed() > kit::wait::HANG;
    assert!(pm1.wait_for_wake(hangs));
    assert_eq!(read(&pm1, STATUS), RTC | WAKE);
    thread.join().unwrap();
}

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

#[test]
fn sleep_control_switches_off_by_s5_only() {
    let count = AtomicU32::new(0);
    let registers = SleepRegisters::new(|| {
        count.fetch_add(1, Relaxed);
    });
    let kind = |sleep: Sleep| sleep.kind() << 2;
    // None of these switches off: the first lacks the bit that starts the sleep, the second has another kind, the third
    // is written to the status, and the last to both registers at once.
    registers.write(0, &[kind(Sleep::S5)]);
    registers.write(0, &[SLEEP_NOW | kind(Sleep::S3)]);
    registers.write(1, &[SLEEP_NOW | kind(Sleep::S5)]);
    registers.write(0, &[SLEEP_NOW | kind(Sleep::S5), 0x80]);
    assert_eq!(count.load(Relaxed), 0);
    registers.write(0, &[SLEEP_NOW | kind(Sleep::S5)]);
    assert_eq!(count.load(Relaxed), 1);
    let mut read = [0xaa; 2];
    registers.read(0, &mut read);
    assert_eq!(read, [0, 0]);
}
