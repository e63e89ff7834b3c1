//! How the values of flags are read.

use std::time::Duration;

use crate::bench::cpu_list;

/// CPUs of `--cpu`, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CpuList(pub(super) Vec<usize>);

/// Reads a list such as `0,2-3`.
pub(super) fn cpus(text: &str) -> Result<CpuList, cpu_list::CpuListError> {
    cpu_list::parse(text).map(CpuList)
}

/// Reads a number of runs.
pub(super) fn runs(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("at least 1 run is needed to measure anything".to_owned()),
        Ok(runs) => Ok(runs),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a time: a number and `ns`, `us`, `ms`, `s`, `m` or `h`; without a unit, seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit.trim() {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => {
            return Err(format!("'{other}' is not one of ns, us, ms, s, m, h"));
        }
    };
    let number: f64 = number
        .parse()
        .map_err(|_| "a number with a unit is wanted, such as 500ms or 1.5s".to_owned())?;
    Duration::try_from_secs_f64(number * factor).map_err(|error| error.to_string())
}

/// Reads a time that is not zero.
pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be longer than nothing".to_owned()),
        duration => Ok(duration),
    }
}

#[cfg(test)]
#[path = "values_test.rs"]
mod tests;
