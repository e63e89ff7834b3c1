//! Dates and times of day in the proleptic Gregorian calendar, as seconds since 1970, and the format in which the
//! clock's registers show them: binary or BCD, with 24 or 12 hours (MC146818 data sheet).

/// Seconds of a day.
pub(super) const DAY: i64 = 86_400;

/// A date and a time of day. The fields may be out of their ranges when a guest sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    year: i64,
    /// Counted from 1.
    month: i64,
    /// Counted from 1.
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
}

impl Moment {
    /// The moment at `seconds` since 1970.
    pub(super) const fn at(seconds: i64) -> Self {
        let time = seconds.rem_euclid(DAY);
        // Here, years begin in March and are counted from year 0, so that the leap day is the last day of its year.
        let days = seconds.div_euclid(DAY) + 719_468;
        let era = days.div_euclid(146_097);
        let in_era = days.rem_euclid(146_097);
        let year = (in_era - in_era / 1_460 + in_era / 36_524 - in_era / 146_096) / 365;
        let in_year = in_era - (365 * year + year / 4 - year / 100);
        let from_march = (5 * in_year + 2) / 153;
        let month = if from_march < 10 {
            from_march + 3
        } else {
            from_march - 9
        };
        Self {
            year: year + 400 * era + (month <= 2) as i64,
            month,
            day: in_year - (153 * from_march + 2) / 5 + 1,
            hour: time / 3_600,
            minute: time / 60 % 60,
            second: time % 60,
        }
    }

    /// Seconds since 1970. Fields that are too large carry over into the next field.
    pub(super) const fn seconds(self) -> i64 {
        let months = 12 * self.year + (self.month - 1);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        let from_march = (month + 9) % 12;
        let year = year - (month <= 2) as i64;
        let in_year = (153 * from_march + 2) / 5 + (self.day - 1);
        let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        let days = 365 * year + leaps + in_year - 719_468;
        days * DAY + self.hour * 3_600 + self.minute * 60 + self.second
    }

    /// The day of the week, 1 for Sunday.
    const fn weekday(self) -> i64 {
        // 1970-01-01 was a Thursday.
        (self.seconds().div_euclid(DAY) + 4).rem_euclid(7) + 1
    }
}

/// The registers of time and date, in the order of [`Format::encode`]: seconds, minutes, hours, day of the week, day,
/// month, year of the century, and the century, which the MC146818 itself does not have.
pub(super) const CLOCK: [u8; 8] = [0, 2, 4, 6, 7, 8, 9, 0x32];
/// The bit for hours from noon on, in the 12-hour format.
const PM: u8 = 0x80;

/// The part of register B that sets the format of numbers.
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

    /// The moment that the registers [`CLOCK`] show, for any values that a guest wrote. The day of the week is ignored,
    /// since it follows from the date.
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

#[cfg(test)]
#[path = "time_test.rs"]
mod tests;
