//! Interrupts from the host to the guest: how long one takes, and what its end costs.

mod arrival;
mod case;
mod ends;
mod entries;
mod ipi;
mod level;
mod raise;

pub(super) use entries::entries;
