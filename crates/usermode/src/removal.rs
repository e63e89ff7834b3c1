//! Removals that fail halfway: the removed doorbell or irqfd does nothing any more, but the sandbox still has
//! its descriptor.
//!
//! Such a doorbell or resampling irqfd still counts as registered until the same removal is tried again and
//! succeeds. Any thread may try; each list is used under its owner's lock.

use std::fmt;
use std::io;

use vmbell_hypervisor::Error;

/// The removals that have failed halfway: the key of each removed object, and the work that is left.
#[derive(Debug)]
pub struct Unfinished<K, R>(Vec<(K, R)>);

impl<K, R> Default for Unfinished<K, R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq, R> Unfinished<K, R> {
    /// Whether any unfinished removal has a key for which `is_like_this` holds.
    pub fn any(&self, is_like_this: impl Fn(&K) -> bool) -> bool {
        self.0.iter().any(|(key, _)| is_like_this(key))
    }

    /// Takes the work that is left for `key`; `None` if no removal of it has failed.
    pub fn take(&mut self, key: &K) -> Option<R> {
        let place = self.0.iter().position(|(other, _)| other == key)?;
        Some(self.0.swap_remove(place).1)
    }

    /// Does the rest of a removal, and keeps it for the next attempt if it fails. `what` names the removed
    /// object in the error.
    pub fn finish(
        &mut self,
        key: K,
        mut rest: R,
        what: impl fmt::Display,
        finish: impl FnOnce(&mut R) -> io::Result<()>,
    ) -> Result<(), Error> {
        finish(&mut rest).map_err(|source| {
            self.0.push((key, rest));
            let what = what.to_string();
            Error::Unremoved { what, source }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removal_that_failed_is_kept_with_what_is_left_to_do_until_it_succeeds() {
        let mut unfinished = Unfinished::default();
        let error = unfinished.finish("bell", 2, "the bell", |rest| {
            *rest -= 1;
            Err(io::ErrorKind::TimedOut.into())
        });
        let Err(Error::Unremoved { what, .. }) = error else {
            panic!("{error:?}");
        };
        assert_eq!(what, "the bell");
        assert!(unfinished.any(|key| *key == "bell") && unfinished.take(&"fd").is_none());
        let rest = unfinished.take(&"bell").unwrap();
        assert_eq!(rest, 1);
        let finished = unfinished.finish("bell", rest, "the bell", |_| Ok(()));
        assert!(finished.is_ok() && !unfinished.any(|_| true));
    }
}
