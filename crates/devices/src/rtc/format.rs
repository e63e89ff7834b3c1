//! How the clock's registers show a time: binary or BCD, with 24 hours or 12 (MC146818 data sheet, "Time,
//! Calendar, and Alarm Locations").

use super::calendar::Moment;

/// The registers of time and date, in the order of [`Format::encode`]: seconds, minutes, hours, day of the week, day,
/// month, year of the century, and the century, which the MC146818 itself does not have.
pub(super) const CLOCK: [u8; 8] = [0, 2, 4, 6, 7, 8, 9, 0x32];
/// The bit of an hour from noon on, with 12 hours.
const PM: u8 = 0x80;

/// The part of register B that says how numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) binary: bool,
    pub(super) hours24: bool,
}

impl Format {
    /// The registers [`CLOCK`] at a moment.
    pub(super) fn encode(self, moment: Moment) -> [u8; 8] {
        let mut values = [
            moment.second,
            moment.minute,
            0,
            moment.weekday(),
            moment.day,
            moment.month,
            moment.year.rem_euclid(100),
            moment.year.div_euclid(100).rem_euclid(100),
        ]
        .map(|value| self.number(value));
        values[2] = self.hour(moment.hour);
        values
    }

    /// The moment that the registers [`CLOCK`] show, whatever a guest wrote to them. The day of the week is ignored,
    /// since the date has one.
    pub(super) fn decode(self, registers: [u8; 8]) -> Moment {
        let values = registers.map(|byte| self.value(byte));
        let [second, minute, _, _, day, month, year, century] = values;
        Moment {
            year: 100 * century + year,
            month,
            day,
            hour: self.hour_of(registers[2]),
            minute,
            second,
        }
    }

    fn number(self, value: i64) -> u8 {
        let value = u8::try_from(value.rem_euclid(100)).unwrap_or_default();
        if self.binary {
            value
        } else {
            ((value / 10) << 4) | (value % 10)
        }
    }

    fn value(self, byte: u8) -> i64 {
        if self.binary {
            byte.into()
        } else {
            i64::from(byte >> 4) * 10 + i64::from(byte & 0xf)
        }
    }

    fn hour(self, hour: i64) -> u8 {
        if self.hours24 {
            return self.number(hour);
        }
        let on_clock = if hour % 12 == 0 { 12 } else { hour % 12 };
        self.number(on_clock) | if hour >= 12 { PM } else { 0 }
    }

    fn hour_of(self, byte: u8) -> i64 {
        if self.hours24 {
            return self.value(byte);
        }
        let half = if byte & PM == 0 { 0 } else { 12 };
        self.value(byte & !PM) % 12 + half
    }
}
