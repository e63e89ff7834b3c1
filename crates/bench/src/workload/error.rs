//! Why a run of the workload failed.

use std::io;

use super::OptionsError;
use vmbell_virtqueue::{AddError, QueueError, SetupError, UsedError, WrapCounterError};

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The variant is not possible.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The queue could not be set up.
    #[error("cannot set the queue up")]
    Setup(#[from] SetupError),
    /// Wrap counters could not be switched on.
    #[error("cannot count wraps")]
    WrapCounter(#[from] WrapCounterError),
    /// The queue refused a buffer of the driver.
    #[error("cannot add a buffer")]
    Add(#[source] AddError),
    /// The queue broke.
    #[error("the queue broke")]
    Queue(#[from] QueueError),
    /// The queue refused a chain that the device gave back.
    #[error("cannot give a chain back")]
    Used(#[from] UsedError),
    /// A buffer did not arrive as it was sent.
    #[error("a buffer arrived with {len} readable bytes, or with writable ones")]
    Buffer {
        /// The buffer's readable bytes.
        len: u32,
    },
    /// An eventfd failed.
    #[error("cannot use an eventfd")]
    EventFd {
        /// The error of the system call.
        source: io::Error,
    },
    /// Both sides are on one thread, and neither had anything to do.
    #[error("the queue stalled after {completed} buffers")]
    Stalled {
        /// How many buffers were done by then.
        completed: u64,
    },
    /// The device thread panicked.
    #[error("the device thread panicked")]
    Panicked,
}
