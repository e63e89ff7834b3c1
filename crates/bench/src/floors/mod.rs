//! The cost on this host of the primitives that every path uses. No guest takes part.
//!
//! A time measured on one machine says little about others, but its relation to the floors of the same run does:
//! signalling an eventfd from a guest costs at least `floor-eventfd-write`, a heavy exit to a sleeping VMM at least a
//! futex handover, and a heavy exit to a spinning VMM at least a round trip of a cache line.

mod raw;
mod round_trip;
mod signal;
mod system_call;

use round_trip::Cpus;

use super::{BenchEntry, CommandLimit, Remarks, SubjectError, SubjectOptions, SubjectSetting};
use vmbell_report::Group;

/// The floors, the cheapest kind of work first.
pub(super) fn entries() -> Vec<BenchEntry> {
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
pub(super) fn needs_two_cpus(name: &str) -> bool {
    [round_trip::CROSS_CORE, round_trip::CACHE_LINE, signal::NAME].contains(&name)
}

/// Performs `ops` operations in pieces of at most `most`, and fails between two pieces if the run has to end. Checking
/// more often would disturb operations that take only about ten nanoseconds.
fn in_pieces<E>(
    name: &str,
    limit: &CommandLimit,
    (ops, most): (u64, u64),
    mut piece: impl FnMut(u64) -> Result<(), E>,
) -> Result<(), SubjectError>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut left = ops;
    while left > 0 {
        if limit.is_run_over() {
            let subject = name.to_owned();
            return Err(SubjectError::TimedOut { subject });
        }
        let now = left.min(most);
        piece(now).map_err(|error| SubjectError::failed(name, error))?;
        left -= now;
    }
    Ok(())
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

/// The two CPUs of a floor that needs two.
fn two_cpus(options: &SubjectOptions) -> Result<Cpus, SubjectError> {
    let (here, there) = options.two_cpus()?;
    Ok(Cpus { here, there })
}

fn setting(cpus: Cpus) -> SubjectSetting {
    SubjectSetting {
        cpus: vec![cpus.here, cpus.there],
        ..SubjectSetting::default()
    }
}

#[cfg(test)]
#[path = "floors_test.rs"]
mod tests;
