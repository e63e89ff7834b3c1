//! The cost on this host of the primitives that every path uses. No guest takes part.
//!
//! A time measured on one machine says little about others, but its relation to the floors of the same run does:
//! signalling an eventfd from a guest costs at least `floor-eventfd-write`, a heavy exit to a sleeping VMM at least a
//! futex handover, and a heavy exit to a spinning VMM at least a round trip of a cache line.

mod list;
mod raw;
mod round_trip;
mod signal;
mod system_call;

pub(super) use list::{entries, needs_two_cpus};

use super::{CommandLimit, SubjectError, SubjectOptions, SubjectSetting};

/// The CPUs of the two sides.
#[derive(Clone, Copy, Debug)]
struct Cpus {
    here: usize,
    there: usize,
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
