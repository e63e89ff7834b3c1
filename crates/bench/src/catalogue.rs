//! The catalogue of what can be measured.
//!
//! A new scenario or floor is one more [`BenchEntry`] in the list of its module. The rest of the bench and
//! the report know no entry by name, except [`compare`](super::compare).

use super::{BenchEntry, debug, floors, scenario};

/// Whether the entry with this name needs two CPUs. With one CPU it is skipped.
pub fn needs_two_cpus(name: &str) -> bool {
    scenario::needs_two_cpus(name) || floors::needs_two_cpus(name)
}

/// All entries in the order of the report: scenarios of the backends, floors, debug entries. Scenarios with the same
/// name are next to each other, in the order of the backends.
pub fn all(backends: Vec<Vec<BenchEntry>>) -> Vec<BenchEntry> {
    let mut entries: Vec<BenchEntry> = Vec::new();
    for backend in backends {
        // The place after the last entry that this backend shares with earlier backends.
        let mut after = 0;
        for entry in backend {
            let same = entries
                .iter()
                .rposition(|other| other.name() == entry.name());
            after = same.map_or(after, |same| same + 1);
            entries.insert(after, entry);
            after += 1;
        }
    }
    entries.extend(floors::entries());
    entries.extend(debug::entries());
    entries
}
