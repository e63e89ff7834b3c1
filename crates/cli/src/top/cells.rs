//! What the tables share: rates, CPU time, and the column of processes.

use vmbell_report::{Align, Table};
use vmbell_top::rates::per_second;

/// A table with a row for each of these PIDs.
pub(super) fn of_pids(pids: impl Iterator<Item = u32>) -> Table {
    let mut table = Table::new("PID", pids.map(|pid| pid.to_string()));
    for pids in &mut table.columns {
        pids.align = Align::Right;
    }
    table
}

/// Clock ticks as seconds.
pub(super) fn cpu_seconds(ticks: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "it is shown with a few digits")]
    let [ticks, each] = [ticks, rustix::param::clock_ticks_per_second()].map(|count| count as f64);
    ticks / each
}

/// CPU time as a share of a core; `-` if it is unknown.
pub(super) fn core(ticks: Option<u64>, seconds: f64) -> String {
    let share = |ticks| {
        if seconds > 0.0 {
            cpu_seconds(ticks) / seconds
        } else {
            0.0
        }
    };
    ticks.map_or("-".to_owned(), |ticks| format!("{:.2}", share(ticks)))
}

/// A count per second in at most six characters; `-` if it is unknown.
pub(super) fn rate(count: Option<u64>, seconds: f64) -> String {
    let Some(count) = count else {
        return "-".to_owned();
    };
    let rate = per_second(count, seconds);
    match rate {
        0.0..0.05 if count > 0 => "<0.1".to_owned(),
        0.05..9.95 if count > 0 => format!("{rate:.1}"),
        0.0..9_999.5 => format!("{rate:.0}"),
        0.0..99_950.0 => format!("{:.1}k", rate / 1e3),
        0.0..9_999_500.0 => format!("{:.0}k", rate / 1e3),
        _ => format!("{:.1}M", rate / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_four_digits_at_most_and_no_event_is_a_round_zero() {
        let each = [
            0, 1, 9, 10, 9999, 10_000, 99_949, 99_950, 9_999_499, 9_999_500,
        ];
        assert_eq!(
            each.map(|count| rate(Some(count), 1.0)),
            [
                "0", "1.0", "9.0", "10", "9999", "10.0k", "99.9k", "100k", "9999k", "10.0M"
            ]
        );
        assert_eq!(rate(Some(1), 100.0), "<0.1");
        assert_eq!(rate(None, 1.0), "-");
    }
}
