//! A level-triggered line with several devices on it: up while any of them asserts it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The line. `D` drives its level on the guest: `Irqs::set_line`, for example.
pub struct LevelLine<D> {
    asserted: Mutex<usize>,
    drive: D,
}

/// One device's hold on a line; dropping it lets go.
#[derive(Debug)]
pub struct LineSource<D, E>
where
    D: Fn(bool) -> Result<(), E>,
{
    line: Arc<LevelLine<D>>,
    asserted: bool,
}

impl<D> LevelLine<D> {
    /// A line that is down.
    pub fn new(drive: D) -> Arc<Self> {
        Arc::new(Self {
            asserted: Mutex::new(0),
            drive,
        })
    }

    /// Connects one more device, which does not assert yet.
    pub fn connect<E>(self: &Arc<Self>) -> LineSource<D, E>
    where
        D: Fn(bool) -> Result<(), E>,
    {
        LineSource {
            line: Arc::clone(self),
            asserted: false,
        }
    }

    /// Whether it is up.
    pub fn is_up(&self) -> bool {
        *self.asserted.lock().unwrap_or_else(PoisonError::into_inner) != 0
    }
}

impl<D, E> LineSource<D, E>
where
    D: Fn(bool) -> Result<(), E>,
{
    /// The device wants service. Nothing changes if it said so before.
    pub fn assert(&mut self) -> Result<(), E> {
        self.set(true)
    }

    /// The device has been served.
    pub fn deassert(&mut self) -> Result<(), E> {
        self.set(false)
    }

    fn set(&mut self, assert: bool) -> Result<(), E> {
        if self.asserted == assert {
            return Ok(());
        }
        // Held while the line is driven: two devices must not overtake each other there.
        let mut count = self
            .line
            .asserted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let others = if assert { *count } else { *count - 1 };
        if others == 0 {
            (self.line.drive)(assert)?;
        }
        *count = others + usize::from(assert);
        self.asserted = assert;
        Ok(())
    }
}

impl<D, E> Drop for LineSource<D, E>
where
    D: Fn(bool) -> Result<(), E>,
{
    fn drop(&mut self) {
        // A guest that cannot be driven any more has no line to hold.
        let _ = self.deassert();
    }
}

impl<D> fmt::Debug for LevelLine<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LevelLine")
            .field("asserted", &self.asserted)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "line_test.rs"]
mod tests;
