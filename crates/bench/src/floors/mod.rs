//! What the host itself charges for the primitives below every path: no guest takes part.
//!
//! Times do not travel between machines. A path's time beside the floors of the same run does: an
//! eventfd that is rung cannot cost less than `floor-eventfd-write`, a heavy exit to a sleeping VMM
//! not less than a futex handover, one to a spinning VMM not less than a cache line's round trip.

mod cache_line;
mod eventfd_write;
mod futex;
mod getppid;
mod partner;
mod raw;
mod signal;

use partner::Cpus;

use super::{Entry, Options, Remarks, Setting, SubjectError};
use vmbell_report::Group;

/// The floors, cheapest kind of work first.
pub(super) fn entries() -> Vec<Entry> {
    vec![
        Entry::new(
            Group::Floor,
            getppid::NAME,
            "an empty system call: getppid(2)",
            getppid::make,
        ),
        Entry::new(
            Group::Floor,
            eventfd_write::NAME,
            "write(2) to a non-blocking eventfd that nobody waits for",
            eventfd_write::make,
        ),
        Entry::new(
            Group::Floor,
            futex::SAME_CORE,
            "round trip between two sleeping threads on one CPU, by futex(2)",
            futex::make_same_core,
        )
        .with_remarks(round_trip()),
        Entry::new(
            Group::Floor,
            futex::CROSS_CORE,
            "round trip between two sleeping threads on two CPUs, by futex(2)",
            futex::make_cross_core,
        )
        .with_remarks(round_trip()),
        Entry::new(
            Group::Floor,
            cache_line::NAME,
            "round trip of a cache line between two spinning threads on two CPUs",
            cache_line::make,
        )
        .with_remarks(round_trip()),
        Entry::new(
            Group::Floor,
            signal::NAME,
            "tgkill(2) to a thread that runs on another CPU, until its handler's first instruction",
            signal::make,
        ),
    ]
}

/// Of the floors that are there and back, in one note for all of them.
fn round_trip() -> Remarks {
    let note =
        "floor-futex-* and floor-cache-line are round trips: one operation is there and back";
    Remarks {
        note: Some(note),
        ..Remarks::default()
    }
}

/// The CPUs of a floor that needs two.
fn two_cpus(options: &Options) -> Result<Cpus, SubjectError> {
    let (here, there) = options.two_cpus()?;
    Ok(Cpus { here, there })
}

fn setting(cpus: Cpus) -> Setting {
    Setting {
        cpus: vec![cpus.here, cpus.there],
        ..Setting::default()
    }
}

#[cfg(test)]
#[path = "floors_test.rs"]
mod tests;
