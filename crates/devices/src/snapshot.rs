//! Why a device cannot be saved or restored. A device is saved while no vCPU runs and it is paused: its own threads
//! touch neither guest memory nor interrupts. A device without support for it refuses, and says why.

use vmbell_virtqueue::RestoreError;

/// Why the devices of a guest cannot be saved or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// A device cannot be saved.
    #[error("a {device} cannot be saved: {reason}")]
    Unsaved {
        /// The name of the device.
        device: &'static str,
        /// Why it cannot be saved.
        reason: &'static str,
    },
    /// The host does not complete a request, on which the save waits.
    #[error("the {device} still has a request of queue {queue} in flight")]
    InFlight {
        /// The name of the device.
        device: &'static str,
        /// The index of the queue.
        queue: u16,
    },
    /// The state is of another device, or no device can be in this state.
    #[error("the {device} does not fit the snapshot: {what}")]
    Different {
        /// The name of the device.
        device: &'static str,
        /// What differs.
        what: String,
    },
    /// The state of a device has a field that is missing, unknown or not of its type.
    #[error("the state of the {device} has a wrong field")]
    Malformed {
        /// The name of the device.
        device: &'static str,
        /// The field.
        source: serde_json::Error,
    },
    /// The state of a ring does not fit its queue.
    #[error("cannot restore the ring of queue {queue} of the {device}")]
    Ring {
        /// The name of the device.
        device: &'static str,
        /// The index of the queue.
        queue: u16,
        /// What does not fit.
        source: RestoreError,
    },
}
