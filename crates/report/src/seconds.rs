//! Times in a report's JSON are seconds, as in hyperfine's files; in a [`Report`](super::Report) they are nanoseconds.
//!
//! The functions and modules here are for `#[serde(with = "...")]`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<S: Serializer>(ns: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    of(*ns).serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    f64::deserialize(deserializer).map(nanoseconds)
}

/// A time that may be null.
pub(crate) mod optional {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        ns: &Option<f64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        ns.map(super::of).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<f64>, D::Error> {
        let seconds = Option::<f64>::deserialize(deserializer)?;
        Ok(seconds.map(super::nanoseconds))
    }
}

/// The samples of a row, as a flattened field: in nanoseconds, and for programs that read hyperfine's files also in
/// seconds, with exit codes.
pub(crate) mod samples {
    use serde::de::Error;

    use super::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    pub(crate) struct WrittenSeconds<'s> {
        /// `samples_ns` in seconds.
        times: Vec<f64>,
        /// A zero for each sample.
        exit_codes: Vec<i32>,
        /// The time of an operation in each run, in nanoseconds, in the order of rounds.
        samples_ns: &'s [f64],
    }

    #[derive(Deserialize)]
    struct Read {
        samples_ns: Vec<f64>,
    }

    pub(crate) fn serialize<S: Serializer>(
        samples: &[f64],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let written = WrittenSeconds {
            times: samples.iter().copied().map(super::of).collect(),
            exit_codes: vec![0; samples.len()],
            samples_ns: samples,
        };
        written.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<f64>, D::Error> {
        let samples = Read::deserialize(deserializer)?.samples_ns;
        match samples.is_empty() {
            true => Err(D::Error::custom("a measured row has no sample")),
            false => Ok(samples),
        }
    }
}

fn of(ns: f64) -> f64 {
    ns / 1e9
}

/// Converts from seconds, rounded to a millionth of a nanosecond: further digits are an error of the division.
fn nanoseconds(seconds: f64) -> f64 {
    (seconds * 1e15).round() / 1e6
}
