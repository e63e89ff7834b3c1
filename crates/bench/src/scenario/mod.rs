//! The paths between a guest and its host, each as a subject: a guest program that rings, and
//! something that is rung.
//!
//! A *rate* scenario rings back to back and measures inside the guest; a *notify* scenario waits
//! for each ring to be heard and measures from the guest's store to the consumer's first
//! instruction; an *interrupt* scenario goes the other way, and a *virtqueue* scenario sends a buffer
//! there and back. All count on both sides and fail if the counts disagree. The vCPU runs on the
//! first of the user's CPUs, the VMM, if it has a thread of its own, and the consumer on the second.

mod bare;
mod case;
mod entries;
mod guest;
mod interrupt;
mod notify;
mod path;
mod rate;
mod virtqueue;

pub use entries::entries;
