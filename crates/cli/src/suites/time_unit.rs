//! `--time-unit`: the unit of the times shown to people.

use anyhow::Result;
use clap::ValueEnum;

use crate::exit::Usage;
use vmbell_bench::TickClock;
use vmbell_report::Timing;

/// A unit by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimeUnitName {
    /// Nanoseconds
    Ns,
    /// Microseconds
    Us,
    /// Cycles of the time stamp counter
    Cycle,
}

/// Checks the unit for a report with this timing and clock. Cycles are a time only if the counter counts real time at a
/// constant frequency.
pub(crate) fn checked(
    unit: Option<TimeUnitName>,
    timing: Timing,
    clock: &TickClock,
) -> Result<Option<vmbell_report::TimeUnit>> {
    let refused = |why: &str| Err(Usage::new(format!("--time-unit {why}")).into());
    match (unit, timing) {
        (None, _) => Ok(None),
        (Some(_), Timing::Instructions) => {
            refused("has no effect here: the numbers are instructions, not times")
        }
        (Some(TimeUnitName::Ns), _) => Ok(Some(vmbell_report::TimeUnit::Ns)),
        (Some(TimeUnitName::Us), _) => Ok(Some(vmbell_report::TimeUnit::Us)),
        (Some(TimeUnitName::Cycle), Timing::Emulated) => {
            refused("cycle has no meaning here: the counter is emulated. Use ns or us")
        }
        (Some(TimeUnitName::Cycle), Timing::Native) if !clock.is_invariant() => refused(
            "cycle has no meaning here: this CPU's time stamp counter may change its frequency. Use ns or us",
        ),
        (Some(TimeUnitName::Cycle), Timing::Native) => Ok(Some(vmbell_report::TimeUnit::Cycle)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(unit: TimeUnitName, timing: Timing, invariant: bool) -> String {
        let clock = TickClock::with_frequency(1e9, invariant);
        let error = checked(Some(unit), timing, &clock).unwrap_err();
        error.to_string()
    }

    #[test]
    fn cycles_need_a_counter_of_one_frequency() {
        let clock = TickClock::with_frequency(1e9, true);
        let unit = checked(Some(TimeUnitName::Cycle), Timing::Native, &clock).unwrap();
        assert_eq!(unit, Some(vmbell_report::TimeUnit::Cycle));
        assert!(error(TimeUnitName::Cycle, Timing::Native, false).contains("change its frequency"));
        assert!(error(TimeUnitName::Cycle, Timing::Emulated, true).contains("emulated"));
    }

    #[test]
    fn instructions_are_in_no_unit_of_time() {
        for unit in [TimeUnitName::Ns, TimeUnitName::Us, TimeUnitName::Cycle] {
            assert!(error(unit, Timing::Instructions, true).contains("instructions"));
        }
    }
}
