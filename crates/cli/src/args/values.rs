//! Parsers for the values of flags.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use vmbell_report::cpu_list;

/// The CPUs of `--cpu`, in the order that the user gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuList(pub(crate) Vec<usize>);

/// The name and help of a value, which exist for every variant.
pub(crate) fn value(of: &impl ValueEnum) -> PossibleValue {
    of.to_possible_value().unwrap_or_default()
}

/// Parses a list such as `0,2-3`.
pub(crate) fn cpus(text: &str) -> Result<CpuList, cpu_list::CpuListError> {
    cpu_list::parse(text).map(CpuList)
}

/// Parses a number above zero.
pub(crate) fn positive<T>(text: &str) -> Result<T, String>
where
    T: FromStr<Err: fmt::Display> + Default + PartialEq,
{
    match text.parse() {
        Ok(number) if number == T::default() => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a time, such as `500ms`, `1.5s` or `1h 30m`; without a unit, seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let has_unit = !text.ends_with(|last: char| last.is_ascii_digit());
    let unit = if has_unit { "" } else { "s" };
    humantime::parse_duration(&format!("{text}{unit}")).map_err(|error| {
        // A locale other than UTF-8 may not show the micro sign.
        let error = error.to_string().replace("us/µs", "us");
        format!("{error}; write a number with a unit, such as 500ms or 1.5s")
    })
}

/// Parses a size in bytes, or with `K`, `M`, `G` or `T`, each 1024 times the one before.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KIB" => 10,
        "M" | "MIB" => 20,
        "G" | "GIB" => 30,
        "T" | "TIB" => 40,
        _ => return Err(format!("'{unit}' is not one of K, M, G, T")),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "expected a whole number with a unit, such as 64M".to_owned())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "more than 64 bits".to_owned())
}

/// Parses a percentage; the sign is required. `5%` is 0.05.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let wanted = || "expected a percentage, such as 5% or 0.5%".to_owned();
    let number = text.trim().strip_suffix('%').ok_or_else(wanted)?;
    match number.trim_end().parse::<f64>() {
        Ok(percent) if percent < 0.0 => Err(format!("{text} is below 0%")),
        Ok(percent) if percent.is_finite() => Ok(percent / 100.0),
        _ => Err(wanted()),
    }
}

/// Parses a time above zero.
pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be above 0".to_owned()),
        duration => Ok(duration),
    }
}

#[cfg(test)]
#[path = "values_test.rs"]
mod tests;
