//! What one nanosecond means where this process runs.
//!
//! On a CPU that is emulated instruction by instruction, time is the emulator's and says nothing about hardware. In the
//! lab's deterministic mode each instruction takes one nanosecond instead, so that times are numbers of instructions. A
//! program inside cannot tell these two apart, so the lab sets an environment variable.

use vmbell_report::Timing;

use super::cpuid;

/// The environment variable that the lab sets for its program, to the [`name`](Timing::name) of the timing.
pub const VARIABLE: &str = "VMBELL_TIMING";

/// The variable has a value that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}={value}: neither 'emulated' nor 'instructions'", VARIABLE)]
pub struct TimingError {
    /// The value of the variable.
    value: String,
}

/// Whether the lab has started this process.
pub fn is_in_lab() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// The timing of this process. The environment variable decides it, or CPUID if the variable is not set.
pub fn here() -> Result<Timing, TimingError> {
    let told = std::env::var_os(VARIABLE);
    of(
        told.map(|value| value.to_string_lossy().into_owned()),
        cpuid::is_emulated(),
    )
}

fn of(told: Option<String>, is_emulated: bool) -> Result<Timing, TimingError> {
    match told {
        Some(value) => [Timing::Emulated, Timing::Instructions]
            .into_iter()
            .find(|timing| timing.name() == value)
            .ok_or(TimingError { value }),
        None if is_emulated => Ok(Timing::Emulated),
        None => Ok(Timing::Native),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_is_believed_and_then_the_cpu() {
        let told = |value: &str, is_emulated| of(Some(value.to_owned()), is_emulated);
        assert_eq!(told("instructions", true), Ok(Timing::Instructions));
        assert_eq!(told("emulated", false), Ok(Timing::Emulated));
        assert_eq!(of(None, true), Ok(Timing::Emulated));
        assert_eq!(of(None, false), Ok(Timing::Native));
    }

    #[test]
    fn a_timing_that_nobody_knows_is_an_error() {
        let error = of(Some("native".to_owned()), false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "VMBELL_TIMING=native: neither 'emulated' nor 'instructions'"
        );
    }
}
