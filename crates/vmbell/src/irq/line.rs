//! A level-triggered line that several devices share: it is up while any of them asserts it. Any thread may
//! drive it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The line. `D` sets its level in the guest, for example by `Irqs::set_line`.
pub struct LevelLine<D> {
    asserted: Mutex<usize>,
    drive: D,
}

/// A device's connection to a line; dropping it deasserts.
#[derive(Debug)]
pub struct LineSource<D, E>
where
    D: Fn(bool) -> Result<(), E>,
{
    line: Arc<LevelLine<D>>,
    asserted: bool,
}

impl<D> LevelLine<D> {
    /// A line that is down, and whose level `drive` sets.
    pub fn new(drive: D) -> Arc<Self> {
        Arc::new(Self {
            asserted: Mutex::new(0),
            drive,
        })
    }

    /// Connects a device, which does not assert the line yet.
    pub fn connect<E>(self: &Arc<Self>) -> LineSource<D, E>
    where
        D: Fn(bool) -> Result<(), E>,
    {
        LineSource {
            line: Arc::clone(self),
            asserted: false,
        }
    }

    /// Whether any device asserts the line.
    pub fn is_up(&self) -> bool {
        *self.asserted.lock().unwrap_or_else(PoisonError::into_inner) != 0
    }
}

impl<D, E> LineSource<D, E>
where
    D: Fn(bool) -> Result<(), E>,
{
    /// Asserts the line, unless this device asserts it already. The error is that of `D`; nothing has changed
    /// then.
    pub fn assert(&mut self) -> Result<(), E> {
        self.set(true)
    }

    /// Deasserts the line, if this device asserts it. The error is that of `D`; nothing has changed then.
    pub fn deassert(&mut self) -> Result<(), E> {
        self.set(false)
    }

    fn set(&mut self, assert: bool) -> Result<(), E> {
        if self.asserted == assert {
            return Ok(());
        }
        // Held while the line is driven, so that two devices cannot drive it in the wrong order.
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
        // A line that can no longer be driven need not be released.
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
