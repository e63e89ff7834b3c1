//! The floors as entries of the bench.

use super::{round_trip, signal, system_call};
use crate::{BenchEntry, Remarks};
use vmbell_report::Group;

/// The floors, the cheapest kind of work first.
pub(crate) fn entries() -> Vec<BenchEntry> {
    vec![
        BenchEntry::new(
            Group::Floor,
            system_call::GETPPID,
            "an empty system call: getppid(2)",
            system_call::make_getppid,
        ),
        BenchEntry::new(
            Group::Floor,
            system_call::EVENTFD_WRITE,
            "write(2) to a non-blocking eventfd without a waiter",
            system_call::make_eventfd_write,
        ),
        BenchEntry::new(
            Group::Floor,
            round_trip::SAME_CORE,
            "round trip between two sleeping threads on one CPU, by futex(2)",
            round_trip::make_same_core,
        )
        .with_remarks(round_trip()),
        BenchEntry::new(
            Group::Floor,
            round_trip::CROSS_CORE,
            "round trip between two sleeping threads on two CPUs, by futex(2)",
            round_trip::make_cross_core,
        )
        .with_remarks(round_trip()),
        BenchEntry::new(
            Group::Floor,
            round_trip::CACHE_LINE,
            "round trip of a cache line between two spinning threads on two CPUs",
            round_trip::make_cache_line,
        )
        .with_remarks(round_trip()),
        BenchEntry::new(
            Group::Floor,
            signal::NAME,
            "tgkill(2) to a thread that runs on another CPU, until its handler's first instruction",
            signal::make,
        ),
    ]
}

/// Whether the floor of this name needs two CPUs.
pub(crate) fn needs_two_cpus(name: &str) -> bool {
    [round_trip::CROSS_CORE, round_trip::CACHE_LINE, signal::NAME].contains(&name)
}

/// The remarks of floors that measure a round trip; all have the same note.
fn round_trip() -> Remarks {
    let note =
        "floor-futex-* and floor-cache-line are round trips: one operation is there and back";
    Remarks {
        note: Some(note),
        ..Remarks::default()
    }
}

#[cfg(test)]
#[path = "floors_test.rs"]
mod tests;
