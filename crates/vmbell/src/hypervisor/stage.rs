//! How far a vCPU has come: what it can still be told, and whether it can be entered.

use super::Error;

/// The state of a vCPU, which its own thread keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// It has never run.
    #[default]
    Fresh,
    /// It has been entered.
    Entered,
    /// Its guest faulted, or can go on no more for another reason.
    Faulted,
}

impl Stage {
    /// Fails once the vCPU has run: where it begins cannot change any more.
    pub fn check_fresh(self) -> Result<(), Error> {
        match self {
            Self::Fresh => Ok(()),
            Self::Entered | Self::Faulted => Err(Error::Running),
        }
    }

    /// The vCPU is about to be entered. Fails after a fault.
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

    /// The vCPU is never to be entered again.
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
