//! What the times of a report are; JSON has it in two fields, `timing` and `unit`.

use serde::{Deserialize, Serialize};

/// What a nanosecond of a report's times means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(into = "WrittenTiming", from = "WrittenTiming")]
pub enum Timing {
    /// A nanosecond of real time.
    #[default]
    Native,
    /// A nanosecond of an emulator's time, which says nothing about hardware.
    Emulated,
    /// One instruction that an emulated CPU executed in this program, in the kernel or in the guest.
    Instructions,
}

impl Timing {
    /// The name that the lab and its options use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Emulated => "emulated",
            Self::Instructions => "instructions",
        }
    }
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WrittenTiming {
    timing: CpuKind,
    unit: TimingUnit,
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum CpuKind {
    Native,
    Emulated,
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum TimingUnit {
    Time,
    Instructions,
}

impl From<Timing> for WrittenTiming {
    fn from(timing: Timing) -> Self {
        let (timing, unit) = match timing {
            Timing::Native => (CpuKind::Native, TimingUnit::Time),
            Timing::Emulated => (CpuKind::Emulated, TimingUnit::Time),
            Timing::Instructions => (CpuKind::Emulated, TimingUnit::Instructions),
        };
        Self { timing, unit }
    }
}

impl From<WrittenTiming> for Timing {
    fn from(written: WrittenTiming) -> Self {
        match (written.timing, written.unit) {
            (CpuKind::Native, _) => Self::Native,
            (CpuKind::Emulated, TimingUnit::Time) => Self::Emulated,
            (CpuKind::Emulated, TimingUnit::Instructions) => Self::Instructions,
        }
    }
}
