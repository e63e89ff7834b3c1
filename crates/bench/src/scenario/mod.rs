//! The paths between a guest and its host, each as a subject: a guest program that notifies, and its consumer.
//!
//! A *rate* scenario notifies back to back and measures inside the guest. A *notify* scenario waits until the consumer
//! has answered, and measures from the guest's store to the consumer's first instruction. An *interrupt* scenario goes
//! from the host to the guest, a *virtqueue* scenario sends a buffer there and back, and in a *passthrough* scenario
//! the other side is a device of the host. Scenarios count on both sides and fail if the counts disagree. The vCPU runs
//! on the first of the user's CPUs; the consumer, and the VMM if it has its own thread, run on the second.

mod bare;
mod case;
mod creation;
mod entries;
mod guest;
mod interrupt;
mod kvm_run;
mod notify;
mod passthrough;
mod path;
mod rate;
mod registration;
mod scan;
mod series;
mod view;
mod virtqueue;
mod wiring;

pub use entries::entries;
pub(crate) use entries::needs_two_cpus;
pub(crate) use guest::{GuestScenario, ScenarioGuest};
pub use passthrough::devices;
pub use scan::{MOST as MOST_DOORBELLS, ScanValues};
pub(crate) use view::{GuestGone, GuestView};
pub(crate) use wiring::{InterruptSource, Wiring, bell};
