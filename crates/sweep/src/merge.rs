//! Merges the reports of all shards of a sweep: the result is equal to one report with all instants.

use crate::report::{Event, EventResults, SweepReport, SweptVmm};

/// Why shards cannot be merged.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// There is no report.
    #[error("there is no report to merge")]
    Empty,
    /// A report is not a shard.
    #[error("report {0} is a whole sweep, not a shard")]
    Whole(usize),
    /// Reports of different sweeps, or of VMMs that differ.
    #[error("reports 1 and {0} are of different sweeps: {1} differs")]
    Differs(usize, &'static str),
    /// An instant is missing: the sweep of a shard was interrupted.
    #[error("{vmm}, {event}: {found} of {instants} instants are there", event = event.name())]
    Incomplete {
        /// The VMM.
        vmm: String,
        /// The event.
        event: Event,
        /// The number of instants.
        found: usize,
        /// The number in the whole sweep.
        instants: u32,
    },
    /// A shard is missing or there twice.
    #[error("expected each shard from 1 to {count} once; shard {index} is there {found} times")]
    Shards {
        /// The shard.
        index: u32,
        /// How many reports have it.
        found: usize,
        /// How many shards there are.
        count: u32,
    },
}

/// Merges all shards of a sweep, in any order. A VMM that failed in a shard has what was tried until then.
pub fn merge(parts: &[SweepReport]) -> Result<SweepReport, MergeError> {
    let first = parts.first().ok_or(MergeError::Empty)?;
    let mut shards = Vec::new();
    for (number, part) in (1..).zip(parts) {
        let shard = part.shard.ok_or(MergeError::Whole(number))?;
        let differs = |what| Err(MergeError::Differs(number, what));
        match () {
            () if Some(shard.count) != first.shard.map(|first| first.count) => {
                return differs("the number of shards");
            }
            () if part.schema_version != first.schema_version => return differs("the schema"),
            () if part.seed != first.seed => return differs("the seed"),
            () if part.instants != first.instants => return differs("the number of instants"),
            () if part.repeats != first.repeats => return differs("the kind of machine"),
            () if part.window != first.window => return differs("the window"),
            () if part.again != first.again => return differs("the number of restores"),
            () if part.given != first.given => return differs("the list of --vmm"),
            () if part.edit != first.edit => return differs("the edit of snapshots"),
            () if !is_of_same_vmms(part, first) => return differs("the list of VMMs or events"),
            () => shards.push((shard, part)),
        }
    }
    let count = shards[0].0.count;
    for index in 1..=count {
        let found = shards
            .iter()
            .filter(|(shard, _)| shard.index == index)
            .count();
        if found != 1 {
            return Err(MergeError::Shards {
                index,
                found,
                count,
            });
        }
    }
    // A VMM that failed differs between the shards, and their order must not matter.
    shards.sort_by_key(|(shard, _)| shard.index);
    let mut shards = shards.into_iter().map(|(_, part)| part);
    let mut merged = shards.next().cloned().ok_or(MergeError::Empty)?;
    merged.shard = None;
    for part in shards {
        for (into, from) in merged.vmms.iter_mut().zip(&part.vmms) {
            into.failed = into.failed.take().or_else(|| from.failed.clone());
            let more = from.events.get(into.events.len()..).unwrap_or_default();
            for (into, from) in into.events.iter_mut().zip(&from.events) {
                into.instants.extend_from_slice(&from.instants);
            }
            into.events.extend_from_slice(more);
        }
    }
    let instants = merged.instants;
    for vmm in &mut merged.vmms {
        for event in &mut vmm.events {
            event.instants.sort_by_key(|result| result.instant.number);
            let numbers = event.instants.iter().map(|result| result.instant.number);
            let may_miss = event.has_none.is_some() || vmm.failed.is_some();
            if !may_miss && !numbers.eq(0..instants) {
                return Err(MergeError::Incomplete {
                    vmm: vmm.name.clone(),
                    event: event.event,
                    found: event.instants.len(),
                    instants,
                });
            }
        }
        vmm.excuse();
    }
    Ok(merged)
}

/// Whether two shards have the same VMMs, with the same events. One that failed has only the first of them.
fn is_of_same_vmms(one: &SweepReport, other: &SweepReport) -> bool {
    let is_same = |(one, other): (&SweptVmm, &SweptVmm)| {
        let head = |vmm: &SweptVmm| {
            let SweptVmm {
                name,
                version,
                accelerator,
                skipped,
                ..
            } = vmm.clone();
            (name, version, accelerator, skipped)
        };
        let has_failed = one.failed.is_some() || other.failed.is_some();
        let mut events = one.events.iter().zip(&other.events);
        head(one) == head(other)
            && (has_failed || one.events.len() == other.events.len())
            && events.all(|(one, other)| {
                let head = |event: &EventResults| (event.traffic, event.event);
                head(one) == head(other) && one.has_none == other.has_none
            })
    };
    one.vmms.len() == other.vmms.len() && one.vmms.iter().zip(&other.vmms).all(is_same)
}
