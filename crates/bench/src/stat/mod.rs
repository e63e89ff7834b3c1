//! Counts the events of one workload with PV EOI off and on, which `vmbell stat` prints.
//!
//! A guest with one vCPU halts until a message-signalled interrupt comes, by an irqfd that another
//! thread signals. The counts are those of the backend, read after the guest has been set up and again
//! after its last interrupt; nothing is sampled.

mod mode;
mod paced;
mod workload;

pub use mode::{Measured, Mode, SPARED, TAKEN, Tick};
pub use workload::{StatError, Workload, run};
