//! Level-triggered lines. A line that several devices share is up while any of them asserts it. A line may be
//! forwarded. Any thread may drive a line.

use std::fmt;
use std::sync::Arc;

use crate::sync::Mutex;

pub use vmbell_core::ioapic::Activity;

/// A line. `D` sets its level in the guest, for example by `Irqs::set_line`.
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
    /// A line that is down. `drive` sets its level.
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
        *self.asserted.lock() != 0
    }
}

impl<D, E> LineSource<D, E>
where
    D: Fn(bool) -> Result<(), E>,
{
    /// Asserts the line, unless this device asserts it already. If `D` fails, its error is returned, and nothing has
    /// changed.
    pub fn assert(&mut self) -> Result<(), E> {
        self.set(true)
    }

    /// Deasserts the line, if this device asserts it. If `D` fails, its error is returned, and nothing has changed.
    pub fn deassert(&mut self) -> Result<(), E> {
        self.set(false)
    }

    fn set(&mut self, assert: bool) -> Result<(), E> {
        if self.asserted == assert {
            return Ok(());
        }
        // Held while the line is driven, so that two devices cannot drive it in the wrong order.
        let mut count = self.line.asserted.lock();
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
        // If the line can no longer be driven, there is nothing to release.
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

/// The owner's side of a forwarded line, for any thread. When the guest ends an interrupt of the line, it has ended for
/// the device as well.
///
/// Without forwarding, the host (an irqfd with a resamplefd) or the device model lowers the line at
/// the end of a level-triggered interrupt and notifies the device. The owner of a forwarded line
/// raises the line and then polls whether the guest has ended the interrupt: it gets no
/// notification. The states are those of a hardware-mapped interrupt in a GIC ([`Activity`]). How
/// the guest ends the interrupt depends on the backend. Once the line is no longer forwarded,
/// raising it does nothing.
pub trait ForwardedLine: Send + Sync + fmt::Debug {
    /// Raises the line. If an interrupt of the line is under way, the guest takes another one after it ends; further
    /// calls until then change nothing.
    fn raise(&self);

    /// Returns whether the guest has ended all interrupts that were raised, or has itself terminated. Does not wait.
    fn has_ended(&self) -> bool;
}

#[cfg(test)]
#[path = "line_test.rs"]
mod tests;
