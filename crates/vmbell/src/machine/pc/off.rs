//! The switch that devices turn the machine off with.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why a device did.
#[derive(Debug)]
pub(super) enum Off {
    /// The guest asked it to.
    Guest,
    /// It cannot go on.
    Failed {
        device: &'static str,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Off {
    pub(super) fn failed(
        device: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        let source = source.into();
        Self::Failed { device, source }
    }
}

/// On, or off for a reason.
#[derive(Debug, Default)]
pub(super) struct Switch(Mutex<Option<Off>>);

impl Switch {
    /// Turns off, unless somebody did before.
    pub(super) fn turn(&self, off: Off) {
        self.lock().get_or_insert(off);
    }

    pub(super) fn is_off(&self) -> bool {
        self.lock().is_some()
    }

    /// Turns on again.
    pub(super) fn take(&self) -> Option<Off> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Off>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
