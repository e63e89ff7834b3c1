use super::*;

const fn moment(year: i64, month: i64, day: i64, hour: i64, minute: i64, second: i64) -> Moment {
    Moment {
        year,
        month,
        day,
        hour,
        minute,
        second,
    }
}

#[test]
fn known_moments_are_where_other_calendars_have_them() {
    // From `date -u -d @N` of GNU coreutils.
    for (seconds, expected, weekday) in [
        (0, moment(1970, 1, 1, 0, 0, 0), 5),
        (-1, moment(1969, 12, 31, 23, 59, 59), 4),
        (951_782_399, moment(2000, 2, 28, 23, 59, 59), 2),
        (951_868_799, moment(2000, 2, 29, 23, 59, 59), 3),
        (951_868_800, moment(2000, 3, 1, 0, 0, 0), 4),
        (4_107_542_400, moment(2100, 3, 1, 0, 0, 0), 2),
        (1_767_225_599, moment(2025, 12, 31, 23, 59, 59), 4),
    ] {
        assert_eq!(Moment::at(seconds), expected);
        assert_eq!(expected.seconds(), seconds);
        assert_eq!(expected.weekday(), weekday, "{expected:?}");
    }
}

#[test]
fn every_day_of_400_years_comes_back() {
    for day in -200 * 365..200 * 366 {
        let seconds = day * DAY + 3_661;
        assert_eq!(Moment::at(seconds).seconds(), seconds);
    }
}

#[test]
fn fields_that_are_too_great_carry_over() {
    assert_eq!(
        moment(2025, 13, 1, 0, 0, 0).seconds(),
        moment(2026, 1, 1, 0, 0, 0).seconds()
    );
    assert_eq!(
        moment(2025, 2, 31, 25, 61, 75).seconds(),
        moment(2025, 3, 4, 2, 2, 15).seconds()
    );
    assert_eq!(
        moment(2025, 0, 0, 0, 0, 0).seconds(),
        moment(2024, 11, 30, 0, 0, 0).seconds()
    );
}
