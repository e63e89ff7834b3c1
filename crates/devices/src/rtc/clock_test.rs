//! The edges in the data sheet, at times that the tests choose.

use super::*;

const SECONDS: u8 = 0;
const MINUTES: u8 = 2;
const HOURS: u8 = 4;
const WEEKDAY: u8 = 6;
const DAY_OF_MONTH: u8 = 7;
const MONTH: u8 = 8;
const YEAR: u8 = 9;
const CENTURY: u8 = 0x32;
const ALARM_INTERRUPT: u8 = ALARM_FLAG;

/// 1999-12-31, a Friday, 23:59:58.
const MILLENNIUM: i64 = 946_684_798;
/// When the clocks of these tests begin.
const START: Duration = Duration::from_secs(10);

fn after(millis: u64) -> Duration {
    START + Duration::from_millis(millis)
}

fn clock(seconds: i64) -> Clock {
    Clock::new(seconds, START)
}

/// The registers from the century to the second.
fn shown(clock: &mut Clock, now: Duration) -> [u8; 8] {
    [
        CENTURY,
        YEAR,
        MONTH,
        DAY_OF_MONTH,
        WEEKDAY,
        HOURS,
        MINUTES,
        SECONDS,
    ]
    .map(|register| clock.read(register, now))
}

#[test]
fn seconds_carry_over_into_the_century() {
    let mut clock = clock(MILLENNIUM);
    let before = [0x19, 0x99, 0x12, 0x31, 6, 0x23, 0x59, 0x58];
    assert_eq!(shown(&mut clock, after(999)), before);
    let after_midnight = [0x20, 0x00, 0x01, 0x01, 7, 0x00, 0x00, 0x00];
    assert_eq!(shown(&mut clock, after(2_000)), after_midnight);
}

#[test]
fn format_is_binary_or_bcd_and_of_12_or_24_hours() {
    // 1970-01-01: midnight, and each hour after it.
    let mut clock = clock(0);
    for (b, expected) in [
        (HOURS_24, [0x00, 0x09, 0x12, 0x13, 0x23]),
        (HOURS_24 | BINARY, [0, 9, 12, 13, 23]),
        (0, [0x12, 0x09, 0x92, 0x81, 0x91]),
        (BINARY, [12, 9, 0x80 | 12, 0x80 | 1, 0x80 | 11]),
    ] {
        clock.write(REGISTER_B, b, START);
        for (hour, expected) in [0, 9, 12, 13, 23].into_iter().zip(expected) {
            clock.at_phase = hour * 3_600;
            assert_eq!(clock.read(HOURS, START), expected, "{b:#x}, hour {hour}");
            // The same in reverse.
            clock.write(HOURS, expected, START);
            assert_eq!(clock.at_phase, hour * 3_600, "{b:#x}");
        }
    }
}

#[test]
fn update_is_in_progress_in_the_last_2228_us_of_each_second() {
    let mut clock = clock(0);
    let mut uip = |micros| {
        let now = START + Duration::from_micros(micros);
        clock.read(REGISTER_A, now) & UIP != 0
    };
    assert!(!uip(0));
    assert!(!uip(1_000_000 - 2_229));
    assert!(uip(1_000_000 - 2_228));
    assert!(uip(999_999));
    assert!(!uip(1_000_000));
    assert!(uip(7_999_999));
}

#[test]
fn nothing_is_in_progress_while_the_time_is_set_or_the_divider_is_held() {
    for (register, value) in [(REGISTER_B, SET), (REGISTER_A, 0x60 | 6), (REGISTER_A, 6)] {
        let mut clock = clock(0);
        clock.write(register, value, START);
        assert_eq!(clock.read(REGISTER_A, after(999)) & UIP, 0);
        clock.read(REGISTER_C, after(5_000));
        assert_eq!(clock.read(SECONDS, after(9_000)), 0, "the time is stopped");
        assert_eq!(clock.read(REGISTER_C, after(9_000)), 0);
    }
}

#[test]
fn uip_and_the_read_only_registers_cannot_be_written() {
    let mut clock = clock(0);
    clock.write(REGISTER_A, UIP | RUNNING | 6, START);
    assert_eq!(clock.read(REGISTER_A, START), RUNNING | 6);
    clock.write(REGISTER_C, 0xff, START);
    clock.write(REGISTER_D, 0, START);
    assert_eq!(clock.read(REGISTER_C, START), 0);
    assert_eq!(clock.read(REGISTER_D, START), VALID);
}

#[test]
fn time_that_is_set_goes_on_at_the_end_of_the_second_in_which_it_was_let_go() {
    let mut clock = clock(0);
    clock.write(REGISTER_B, SET | HOURS_24, after(300));
    for (register, value) in [
        (SECONDS, 0x59),
        (MINUTES, 0x59),
        (HOURS, 0x23),
        (DAY_OF_MONTH, 0x28),
        (MONTH, 0x02),
        (YEAR, 0x24),
        (CENTURY, 0x20),
    ] {
        clock.write(register, value, after(5_300));
        assert_eq!(clock.read(register, after(5_300)), value);
    }
    clock.write(REGISTER_B, HOURS_24, after(9_600));
    assert_eq!(clock.read(SECONDS, after(9_999)), 0x59);
    let leap_day = [0x20, 0x24, 0x02, 0x29, 5, 0, 0, 0];
    assert_eq!(shown(&mut clock, after(10_000)), leap_day);
}

#[test]
fn first_update_comes_half_a_second_after_the_divider_is_let_go() {
    let mut clock = clock(0);
    clock.write(REGISTER_A, 0x70, after(100));
    clock.write(SECONDS, 0x30, after(200));
    clock.write(REGISTER_A, RUNNING | 6, after(5_250));
    assert_eq!(clock.read(SECONDS, after(5_749)), 0x30);
    assert_eq!(clock.read(REGISTER_A, after(5_749)) & UIP, UIP);
    assert_eq!(clock.read(SECONDS, after(5_750)), 0x31);
    assert_eq!(clock.read(SECONDS, after(6_749)), 0x31);
}

#[test]
fn one_field_can_be_written_while_the_time_goes_on() {
    let mut clock = clock(MILLENNIUM);
    clock.write(HOURS, 0x11, after(500));
    let expected = [0x19, 0x99, 0x12, 0x31, 6, 0x11, 0x59, 0x58];
    assert_eq!(shown(&mut clock, after(500)), expected);
    // February has no such day: March 3 is shown.
    clock.write(MONTH, 0x02, after(500));
    assert_eq!(clock.read(MONTH, after(500)), 0x03);
}

#[test]
fn alarm_is_at_its_time_of_day_only() {
    // 23:59:59 on any day.
    let mut clock = clock(MILLENNIUM);
    for (register, value) in ALARM.into_iter().zip([0x59, 0x59, 0x23]) {
        clock.write(register, value, START);
    }
    clock.write(REGISTER_B, HOURS_24 | ALARM_INTERRUPT, START);
    clock.advance(after(999));
    assert!(!clock.is_interrupting());
    clock.advance(after(1_000));
    assert!(clock.is_interrupting() && clock.is_alarmed());
    let all = INTERRUPT | ALARM_FLAG | UPDATE_FLAG;
    assert_eq!(clock.read(REGISTER_C, after(1_000)), all);
    assert!(!clock.is_interrupting(), "reading clears it");
    let day = 86_400_000;
    clock.advance(after(1_000 + day - 1));
    assert!(!clock.is_interrupting());
    clock.advance(after(1_000 + day));
    assert!(clock.is_interrupting());
}

#[test]
fn alarm_fields_with_both_upper_bits_match_everything() {
    let mut clock = clock(3_600 + 61);
    for (register, value) in ALARM.into_iter().zip([0x30, 0xc0, 0xff]) {
        clock.write(register, value, START);
    }
    clock.write(REGISTER_B, HOURS_24 | ALARM_INTERRUPT, START);
    let alarms = (1..=180).filter(|second| {
        let now = after(1_000 * second);
        clock.advance(now);
        clock.read(REGISTER_C, now) & ALARM_FLAG != 0
    });
    assert_eq!(alarms.collect::<Vec<_>>(), [29, 89, 149]);
}

#[test]
fn alarm_is_found_however_late_the_clock_is_asked() {
    let mut clock = clock(0);
    for (register, value) in ALARM.into_iter().zip([0x01, 0x00, 0x00]) {
        clock.write(register, value, START);
    }
    clock.advance(START + Duration::from_secs(100 * 86_400));
    assert!(!clock.is_interrupting(), "it is not enabled");
    clock.write(
        REGISTER_B,
        HOURS_24 | ALARM_INTERRUPT,
        START + Duration::from_secs(100 * 86_400),
    );
    assert!(clock.is_interrupting(), "a flag of the past counts");
}

#[test]
fn flags_are_set_without_their_interrupts() {
    let mut clock = clock(0);
    for register in ALARM {
        clock.write(register, ANY, START);
    }
    assert_eq!(clock.next(), None);
    assert_eq!(
        clock.read(REGISTER_C, after(1_000)),
        ALARM_FLAG | UPDATE_FLAG
    );
    assert_eq!(clock.read(REGISTER_C, after(1_999)), 0);
}

#[test]
fn setting_the_time_disables_the_update_interrupt_but_not_the_alarm() {
    let mut clock = clock(0);
    let both = UPDATE_INTERRUPT | ALARM_INTERRUPT;
    clock.write(REGISTER_B, HOURS_24 | both, START);
    assert_eq!(clock.next(), Some(after(1_000)));
    clock.write(REGISTER_B, SET | HOURS_24 | both, after(3_500));
    assert_eq!(clock.next(), None);
    assert_eq!(
        clock.read(REGISTER_B, after(3_500)),
        SET | HOURS_24 | ALARM_INTERRUPT
    );
    clock.write(REGISTER_B, HOURS_24 | ALARM_INTERRUPT, after(3_600));
    assert_eq!(clock.next(), Some(after(4_000)));
}

#[test]
fn registers_behind_the_clock_are_memory() {
    let mut clock = clock(0);
    for register in (0x0e..=0x7f).filter(|register| *register != CENTURY) {
        clock.write(register, register ^ 0xa5, START);
    }
    for register in (0x0e..=0x7f).filter(|register| *register != CENTURY) {
        assert_eq!(clock.read(register, after(9_000)), register ^ 0xa5);
    }
}

#[test]
fn no_bytes_of_a_guest_stop_the_clock() {
    for value in [0x00, 0x7f, 0x80, 0xff] {
        for b in [0, BINARY, HOURS_24, BINARY | HOURS_24] {
            let mut clock = clock(MILLENNIUM);
            clock.write(REGISTER_B, SET | b, START);
            for register in 0..=0x7f_u8 {
                if ![REGISTER_A, REGISTER_B].contains(&register) {
                    clock.write(register, value, START);
                }
            }
            clock.write(REGISTER_B, b | ALARM_INTERRUPT, START);
            let first = shown(&mut clock, after(0));
            assert_ne!(shown(&mut clock, after(1_000)), first, "{value:#x}");
        }
    }
}

#[test]
fn registers_that_the_time_does_not_change_are_read_without_it() {
    let mut clock = clock(MILLENNIUM);
    clock.write(0x40, 0x5a, after(0));
    clock.write(ALARM[0], 0x30, after(0));
    let time = [REGISTER_A, REGISTER_C];
    for register in 0..=0xff {
        let without = clock.read_constant(register);
        let is_time = CLOCK.contains(&(register & 0x7f)) || time.contains(&(register & 0x7f));
        assert_eq!(without.is_none(), is_time, "{register:#x}");
        if let Some(value) = without {
            assert_eq!(value, clock.read(register, after(5000)), "{register:#x}");
        }
    }
    assert_eq!(clock.read_constant(0xc0), Some(0x5a));
    assert_eq!(clock.read_constant(REGISTER_D), Some(VALID));
}

#[test]
fn registers_of_a_time_that_is_being_set_keep_what_is_written() {
    let mut clock = clock(0);
    clock.write(REGISTER_B, SET | HOURS_24, after(0));
    clock.write(MINUTES, 0x42, after(0));
    assert_eq!(clock.read_constant(MINUTES), None);
    assert_eq!(clock.read(MINUTES, after(90_000)), 0x42);
}
