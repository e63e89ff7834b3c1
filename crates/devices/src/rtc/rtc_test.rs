use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use super::*;
use kit::wait::HANG;

/// What a clock reported.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Line(bool),
    Alarm,
}

const SECONDS_ALARM: u8 = 1;
const A: u8 = 0x0a;
const B: u8 = 0x0b;
const C: u8 = 0x0c;
const ALARM_INTERRUPT: u8 = 0x20;

fn clock() -> (Rtc, Receiver<Told>) {
    let (line, told) = channel();
    let (line, alarm) = (Mutex::new(line.clone()), Mutex::new(line));
    let rtc = Rtc::new(
        move |level| line.lock().send(Told::Line(level)).unwrap(),
        move || alarm.lock().send(Told::Alarm).unwrap(),
    );
    (rtc.unwrap(), told)
}

fn read(rtc: &Rtc, register: u8) -> u8 {
    let mut data = [0];
    rtc.write(0, &[register]);
    rtc.read(1, &mut data);
    data[0]
}

fn write(rtc: &Rtc, register: u8, value: u8) {
    rtc.write(0, &[register]);
    rtc.write(1, &[value]);
}

#[test]
fn alarm_comes_by_itself_and_reading_its_flag_takes_the_line_down() {
    let (rtc, told) = clock();
    for register in [1, 3, 5] {
        write(&rtc, register, 0xff);
    }
    write(&rtc, B, 0x02 | ALARM_INTERRUPT);
    assert_eq!(told.recv_timeout(HANG), Ok(Told::Line(true)));
    assert_eq!(told.recv_timeout(HANG), Ok(Told::Alarm));
    assert_eq!(read(&rtc, C) & 0xa0, 0xa0);
    assert_eq!(told.recv_timeout(HANG), Ok(Told::Line(false)));
}

#[test]
fn alarm_that_is_not_enabled_tells_nothing() {
    let (rtc, told) = clock();
    write(&rtc, SECONDS_ALARM, 0xff);
    let silence = told.recv_timeout(Duration::from_millis(1500));
    assert_eq!(silence, Err(RecvTimeoutError::Timeout));
    drop(rtc);
    assert_eq!(
        told.recv(),
        Err(std::sync::mpsc::RecvError),
        "its thread has ended"
    );
}

#[test]
fn time_is_the_hosts_at_first() {
    let (rtc, _told) = clock();
    write(&rtc, B, 0x06);
    let unix = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs()
    };
    let before = unix();
    let [minute, hour] = [2, 4].map(|register| u64::from(read(&rtc, register)));
    let minutes = hour * 60 + minute;
    let all = [before / 60 % 1440, unix() / 60 % 1440];
    assert!(all.contains(&minutes), "{minutes} of {all:?}");
    assert_eq!(read(&rtc, RTC_CENTURY), 20);
}

#[test]
fn wide_accesses_and_the_number_of_the_register_are_nobodys() {
    let (rtc, _told) = clock();
    write(&rtc, 0x40, 0x5a);
    rtc.write(1, &[1, 2]);
    rtc.write(0, &[A, 0]);
    assert_eq!(read(&rtc, 0xc0), 0x5a, "bit 7 is not part of the number");
    let mut data = [0; 2];
    rtc.read(0, &mut data[..1]);
    rtc.read(1, &mut data[1..]);
    assert_eq!(data, [0xff, 0x5a]);
    rtc.read(0, &mut data);
    assert_eq!(data, [0xff; 2]);
}
