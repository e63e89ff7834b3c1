//! The unit that the user wants for all times, instead of the unit that fits each time.

use super::{Report, Timing, units};

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Cycles of the time stamp counter, which has [`Tsc::hz`](super::Tsc::hz) cycles per second.
    Cycle,
}

/// A number of `report` in the wanted unit, or in one that fits. Instructions are not a time, and have no unit.
pub(super) fn measured(ns: f64, report: &Report, wanted: Option<TimeUnit>) -> String {
    match (report.timing, wanted) {
        (Timing::Instructions, _) | (_, None) => units::measured(ns, report.timing),
        (_, Some(TimeUnit::Ns)) => format!("{} ns", digits(ns)),
        (_, Some(TimeUnit::Us)) => format!("{} µs", digits(ns / 1e3)),
        (_, Some(TimeUnit::Cycle)) => format!("{} cy", digits(ns * report.tsc.hz / 1e9)),
    }
}

/// At least three significant digits, because all values share the unit: `0.00195`, `43.1`, `738942`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small number of digits, above zero"
)]
fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let places = (2.0 - value.abs().log10().floor()).clamp(0.0, 9.0);
    format!("{value:.*}", places as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn every_number_has_three_digits_in_any_unit() {
        let mut report = sample::report();
        report.tsc.hz = 2e9;
        let texts = |ns| {
            let units = [TimeUnit::Ns, TimeUnit::Us, TimeUnit::Cycle];
            units.map(|unit| measured(ns, &report, Some(unit)))
        };
        assert_eq!(texts(1.95), ["1.95 ns", "0.00195 µs", "3.90 cy"]);
        assert_eq!(texts(738_942.0), ["738942 ns", "739 µs", "1477884 cy"]);
        assert_eq!(texts(0.0), ["0 ns", "0 µs", "0 cy"]);
    }

    #[test]
    fn instructions_have_no_unit() {
        let report = sample::counted();
        assert_eq!(measured(2985.0, &report, Some(TimeUnit::Us)), "2985");
    }
}
