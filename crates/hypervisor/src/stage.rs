//! The stages of a guest's vCPUs. [`CreatedVcpus`] records which have been created, each once, and may be used on any
//! thread. A [`Stage`] tells whether a vCPU's entry point can still be set and whether the vCPU can be entered; it
//! belongs to the vCPU's thread.

use super::error::Error;

use vmbell::sync::Mutex;

/// The stage of a vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The vCPU has never run.
    #[default]
    Fresh,
    /// The vCPU has been entered.
    Entered,
    /// The guest faulted, or the vCPU cannot continue for another reason.
    Faulted,
}

impl Stage {
    /// Fails with [`Error::Running`] once the vCPU has run: its entry point can no longer change.
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

    /// Forbids entering the vCPU again.
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

/// The vCPUs of a guest, with a value of type `T` for each that has been made.
#[derive(Debug)]
pub struct CreatedVcpus<T>(Mutex<Vec<Option<T>>>);

impl<T: Clone> CreatedVcpus<T> {
    /// Makes a record of `vcpus` vCPUs, none of which has been created yet.
    pub fn new(vcpus: u32) -> Self {
        Self(Mutex::new(vec![None; vcpus as usize]))
    }

    /// Creates the vCPU with this index by `make`. If `make` fails, the vCPU can be created later.
    pub fn create<C>(
        &self,
        index: u32,
        make: impl FnOnce() -> Result<(C, T), Error>,
    ) -> Result<C, Error> {
        let mut created = self.0.lock();
        let vcpus = u32::try_from(created.len()).unwrap_or(u32::MAX);
        match created.get_mut(index as usize) {
            Some(slot @ None) => {
                let (vcpu, known) = make()?;
                *slot = Some(known);
                Ok(vcpu)
            }
            Some(Some(_)) | None => Err(Error::Vcpu { index, vcpus }),
        }
    }

    /// Returns the values of the vCPUs that have been created.
    pub fn all(&self) -> Vec<T> {
        self.0.lock().iter().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod record_tests {
    use super::*;

    #[test]
    fn each_vcpu_is_created_once() {
        let created = CreatedVcpus::new(2);
        for index in [1, 0] {
            assert_eq!(created.create(index, || Ok((index, index))).unwrap(), index);
        }
        for index in [0, 1, 2, u32::MAX] {
            let refused = created.create(index, || Ok(((), 7)));
            assert!(matches!(refused, Err(Error::Vcpu { vcpus: 2, .. })));
        }
        assert_eq!(created.all(), [0, 1]);
    }

    #[test]
    fn a_vcpu_that_could_not_be_created_can_be_created_later() {
        let created = CreatedVcpus::new(1);
        let failed = created.create(0, || Err::<((), u32), _>(Error::Faulted));
        assert!(matches!(failed, Err(Error::Faulted)));
        assert!(created.all().is_empty());
        created.create(0, || Ok(((), 1))).unwrap();
    }
}
