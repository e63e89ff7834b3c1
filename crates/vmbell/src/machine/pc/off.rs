//! The switch with which devices turn the machine off, from any thread.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why a device turned the machine off.
#[derive(Debug)]
pub(super) enum Off {
    /// The guest asked for it.
    Guest,
    /// The device cannot go on.
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

/// The switch: on, or off with a reason.
#[derive(Debug, Default)]
pub(super) struct Switch(Mutex<Option<Off>>);

impl Switch {
    /// Turns the machine off. If it is off already, the first reason stays.
    pub(super) fn turn(&self, off: Off) {
        self.lock().get_or_insert(off);
    }

    pub(super) fn is_off(&self) -> bool {
        self.lock().is_some()
    }

    /// Turns the switch on again and returns why it was off.
    pub(super) fn take(&self) -> Option<Off> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Off>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
