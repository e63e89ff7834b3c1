//! What times are: schema 1 says it in two fields, `timing` and `unit`.

use serde::{Deserialize, Serialize};

/// What a nanosecond of the clock stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Written", from = "Written")]
pub enum Timing {
    /// One of real time.
    #[default]
    Native,
    /// One of an emulator's time: it means nothing.
    Emulated,
    /// One instruction executed on an emulated CPU, by whomever: the program, its kernel, its guest.
    Instructions,
}

impl Timing {
    /// As users of the lab know it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Emulated => "emulated",
            Self::Instructions => "instructions",
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Written {
    #[serde(default)]
    timing: Cpu,
    #[serde(default)]
    unit: Unit,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Cpu {
    #[default]
    Native,
    Emulated,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unit {
    #[default]
    Time,
    Instructions,
}

impl From<Timing> for Written {
    fn from(timing: Timing) -> Self {
        let (timing, unit) = match timing {
            Timing::Native => (Cpu::Native, Unit::Time),
            Timing::Emulated => (Cpu::Emulated, Unit::Time),
            Timing::Instructions => (Cpu::Emulated, Unit::Instructions),
        };
        Self { timing, unit }
    }
}

impl From<Written> for Timing {
    fn from(written: Written) -> Self {
        match (written.timing, written.unit) {
            (Cpu::Native, _) => Self::Native,
            (Cpu::Emulated, Unit::Time) => Self::Emulated,
            (Cpu::Emulated, Unit::Instructions) => Self::Instructions,
        }
    }
}
