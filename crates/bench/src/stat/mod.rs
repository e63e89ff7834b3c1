//! The events of one workload with PV EOI off and on: what `vmbell stat` prints.
//!
//! A guest with one vCPU halts until a message-signalled interrupt comes, by irqfd, from another
//! thread. The counts are the backend's own, taken after the guest has been set up and again after
//! its last interrupt; nothing is sampled.

mod mode;
mod paced;
mod workload;

pub use mode::{Measured, Mode, SPARED, TAKEN, Tick};
pub use workload::{StatError, Workload, run};
