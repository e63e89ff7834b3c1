//! Formats numbers for people: three significant digits and a unit that fits.

use std::fmt;

use super::Timing;

/// Rounds to a thousandth of a nanosecond or instruction: further digits come from the division, not from the clock.
pub fn thousandths(ns: f64) -> f64 {
    (ns * 1000.0).round() / 1000.0
}

/// A measured number in the unit of `timing`: a time, or a number of instructions.
pub fn measured(ns: f64, timing: Timing) -> String {
    match timing {
        Timing::Native | Timing::Emulated => time(ns),
        Timing::Instructions => count(ns),
    }
}

/// A time in nanoseconds, as `43.1 ns`, `6.24 µs`, `1.20 ms`, `3.00 s`.
pub fn time(ns: f64) -> String {
    scaled(ns, &["ns", "µs", "ms", "s"])
}

/// A number of instructions with at least three digits: `0.35`, `43.1`, `2985`.
pub fn count(number: f64) -> String {
    three_digits(number)
}

/// A number of things: `1 row`, `27 rows`.
pub fn plural<N: fmt::Display + PartialEq + From<u8>>(count: N, one: &str) -> String {
    plural_of(count, one, &format!("{one}s"))
}

/// Like [`plural`], with an irregular plural.
pub fn plural_of<N: fmt::Display + PartialEq + From<u8>>(
    count: N,
    one: &str,
    many: &str,
) -> String {
    let name = if count == N::from(1) { one } else { many };
    format!("{count} {name}")
}

/// The rate for the time of one operation in nanoseconds: `70.2 k/s`, `1.41 M/s`.
pub fn rate(ns_per_op: f64) -> String {
    if ns_per_op <= 0.0 {
        return "-".to_owned();
    }
    scaled(1e9 / ns_per_op, &["/s", "k/s", "M/s", "G/s"])
}

/// A size, as `812 B`, `43.1 KiB`, `6.24 MiB`.
#[allow(
    clippy::cast_precision_loss,
    reason = "sizes of a program are far below 2^53"
)]
pub fn bytes(bytes: u64) -> String {
    const KIB: f64 = 1024.0;
    let bytes = bytes as f64;
    match bytes {
        _ if bytes < KIB => format!("{bytes} B"),
        _ if bytes < 999.5 * KIB => format!("{} KiB", three_digits(bytes / KIB)),
        _ => format!("{} MiB", three_digits(bytes / KIB / KIB)),
    }
}

/// A share from 0 to 1 as a percentage: `0.4 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A ratio with three digits, `12.3` or `0.44`; below 0.1 with two significant digits, `0.053` or `0.00014`.
pub fn ratio(value: f64) -> String {
    if value <= 0.0 {
        return "0".to_owned();
    }
    if value >= 0.1 {
        return three_digits(value);
    }
    let (mut decimals, mut scaled) = (2, value);
    while scaled < 0.0995 {
        scaled *= 10.0;
        decimals += 1;
    }
    format!("{value:.decimals$}")
}

/// What a ratio of new to old means for the cost: `13x cheaper`, `the same`, `34 % slower`, or, for instructions,
/// `34 % more expensive`.
pub fn change(ratio: f64, timing: Timing) -> String {
    let (factor, percent, word) = if ratio < 1.0 {
        (1.0 / ratio.max(f64::MIN_POSITIVE), 1.0 - ratio, "cheaper")
    } else {
        let word = match timing {
            Timing::Native | Timing::Emulated => "slower",
            Timing::Instructions => "more expensive",
        };
        (ratio, ratio - 1.0, word)
    };
    if factor >= 1.995 {
        return format!("{}x {word}", two_digits(factor));
    }
    let percent = format!("{:.0}", percent * 100.0);
    match percent.as_str() {
        "0" => "the same".to_owned(),
        percent => format!("{percent} % {word}"),
    }
}

/// A count per operation: `0`, `1`, `0.02`; a positive count below 0.01 is written as `<0.01`.
pub fn per_op(count: f64) -> String {
    if count > 0.0 && count < 0.01 {
        return "<0.01".to_owned();
    }
    let text = format!("{count:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    // With three digits, 999.5 would be printed as 1000.
    while value >= 999.5 {
        let Some(next) = units.next() else { break };
        unit = next;
        value /= 1000.0;
    }
    format!("{} {unit}", three_digits(value))
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A number of at least 1: `6.4`, `13`, `616`, `14200`.
fn two_digits(value: f64) -> String {
    match value {
        small if small < 9.95 => format!("{small:.1}"),
        large => format!("{:.0}", cut(large)),
    }
}

/// A number of which only three digits are kept if it is at least 1000; the others become zeros.
fn cut(value: f64) -> f64 {
    if value < 1000.0 {
        return value;
    }
    let unit = 10_f64.powf(value.log10().floor() - 2.0);
    (value / unit).round() * unit
}

#[cfg(test)]
#[path = "units_test.rs"]
mod tests;
