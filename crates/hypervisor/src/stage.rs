//! The stage of a vCPU: whether its entry point can still be set, and whether it can be entered. Kept by the
//! thread of the vCPU.

use super::Error;

/// The stage of a vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The vCPU has never run.
    #[default]
    Fresh,
    /// The vCPU has been entered.
    Entered,
    /// The guest faulted, or the vCPU cannot go on for another reason.
    Faulted,
}

impl Stage {
    /// Fails with [`Error::Running`] once the vCPU has run: its entry point cannot change any more.
    pub fn check_fresh(self) -> Result<(), Error> {
        match self {
            Self::Fresh => Ok(()),
            Self::Entered | Self::Faulted => Err(Error::Running),
        }
    }

    /// Fails with [`Error::Faulted`] after a fault.
    pub const fn check_sound(self) -> Result<(), Error> {
        match self {
            Self::Fresh | Self::Entered => Ok(()),
            Self::Faulted => Err(Error::Faulted),
        }
    }

    /// Called before the vCPU is entered. Fails with [`Error::Faulted`] after a fault.
    #[inline]
    pub fn enter(&mut self) -> Result<(), Error> {
        match self {
            Self::Entered => Ok(()),
            Self::Faulted => Err(Error::Faulted),
            Self::Fresh => {
                *self = Self::Entered;
                Ok(())
            }
        }
    }

    /// Forbids that the vCPU is entered again.
    pub const fn fault(&mut self) {
        *self = Self::Faulted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vcpu_that_has_run_keeps_its_entry_point() {
        let mut stage = Stage::default();
        stage.check_fresh().unwrap();
        stage.enter().unwrap();
        assert!(matches!(stage.check_fresh(), Err(Error::Running)));
        stage.enter().unwrap();
    }

    #[test]
    fn a_vcpu_that_has_faulted_is_entered_no_more() {
        let mut stage = Stage::default();
        stage.enter().unwrap();
        stage.fault();
        for _ in 0..2 {
            assert!(matches!(stage.enter(), Err(Error::Faulted)));
            assert!(matches!(stage.check_fresh(), Err(Error::Running)));
        }
    }
}
