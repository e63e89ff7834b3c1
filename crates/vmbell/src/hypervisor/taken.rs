//! Which vCPUs of a guest have been taken: each can be once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Error;

/// The vCPUs of a guest, with what is to be known of each that is taken.
#[derive(Debug)]
pub struct Taken<T>(Mutex<Vec<Option<T>>>);

impl<T: Clone> Taken<T> {
    /// None taken yet, of so many.
    pub fn new(vcpus: u32) -> Self {
        Self(Mutex::new(vec![None; vcpus as usize]))
    }

    /// Takes the vCPU with this index and makes it. If that fails, it is not taken.
    pub fn take<C>(
        &self,
        index: u32,
        make: impl FnOnce() -> Result<(C, T), Error>,
    ) -> Result<C, Error> {
        let mut taken = self.lock();
        let vcpus = u32::try_from(taken.len()).unwrap_or(u32::MAX);
        match taken.get_mut(index as usize) {
            Some(slot @ None) => {
                let (vcpu, known) = make()?;
                *slot = Some(known);
                Ok(vcpu)
            }
            Some(Some(_)) | None => Err(Error::Vcpu { index, vcpus }),
        }
    }

    /// What is known of those that are taken.
    pub fn all(&self) -> Vec<T> {
        self.lock().iter().flatten().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vcpu_is_taken_once() {
        let taken = Taken::new(2);
        for index in [1, 0] {
            assert_eq!(taken.take(index, || Ok((index, index))).unwrap(), index);
        }
        for index in [0, 1, 2, u32::MAX] {
            let refused = taken.take(index, || Ok(((), 7)));
            assert!(matches!(refused, Err(Error::Vcpu { vcpus: 2, .. })));
        }
        assert_eq!(taken.all(), [0, 1]);
    }

    #[test]
    fn a_vcpu_that_could_not_be_made_can_be_taken_later() {
        let taken = Taken::new(1);
        let failed = taken.take(0, || Err::<((), u32), _>(Error::Faulted));
        assert!(matches!(failed, Err(Error::Faulted)));
        assert!(taken.all().is_empty());
        taken.take(0, || Ok(((), 1))).unwrap();
    }
}
