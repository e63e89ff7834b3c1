//! Dates and times of day in the proleptic Gregorian calendar, as seconds since 1970.

/// Seconds of a day.
pub(super) const DAY: i64 = 86_400;

/// A date and a time of day. The fields may be out of their ranges when a guest sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) year: i64,
    /// Counted from 1.
    pub(super) month: i64,
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
        // Years begin in March and are counted from year 0, so that the leap day is the last of its year.
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

    /// Seconds since 1970. Fields that are too great carry over into the next one.
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
    pub(super) const fn weekday(self) -> i64 {
        // 1970-01-01 was a Thursday.
        (self.seconds().div_euclid(DAY) + 4).rem_euclid(7) + 1
    }
}

#[cfg(test)]
#[path = "calendar_test.rs"]
mod tests;
