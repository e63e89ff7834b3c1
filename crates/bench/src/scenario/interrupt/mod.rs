//! Host to guest: how long an interrupt takes, and what its end costs.

mod case;
mod ends;
mod entries;
mod ipi;
mod level;
mod raise;
mod signaller;

pub(super) use entries::entries;
