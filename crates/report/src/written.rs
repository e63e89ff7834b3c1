//! Times as schema 1 has them: in seconds, under hyperfine's names. The rest of the program uses
//! nanoseconds.

/// One time, or `None`.
pub(super) mod seconds {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[allow(clippy::ref_option, reason = "the signature that serde wants")]
    pub fn serialize<S: Serializer>(ns: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        ns.map(|ns| ns / 1e9).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<f64>, D::Error> {
        Ok(Option::<f64>::deserialize(deserializer)?.map(ns))
    }

    /// From seconds, rounded to a millionth of a nanosecond: further digits are an error of the
    /// division.
    fn ns(seconds: f64) -> f64 {
        (seconds * 1e15).round() / 1e6
    }
}

/// The samples, which readers of hyperfine's files also expect as `times` and `exit_codes`.
pub(super) mod samples {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize)]
    struct Written<'s> {
        times: Vec<f64>,
        exit_codes: Vec<i32>,
        samples_ns: &'s [f64],
    }

    #[derive(Deserialize)]
    struct Read {
        samples_ns: Vec<f64>,
    }

    pub fn serialize<S: Serializer>(samples_ns: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        let written = Written {
            times: samples_ns.iter().map(|ns| ns / 1e9).collect(),
            exit_codes: vec![0; samples_ns.len()],
            samples_ns,
        };
        written.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        Ok(Read::deserialize(deserializer)?.samples_ns)
    }
}
