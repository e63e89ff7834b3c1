//! The catalogue of what can be measured.
//!
//! A new scenario or floor is one more [`BenchEntry`] in the list of its module. The rest of the bench and
//! the report know no entry by name, except [`compare`](super::compare).

use super::{BenchEntry, debug, floors, scenario};

/// Whether the entry of this name needs two CPUs: with one it is skipped.
pub fn needs_two_cpus(name: &str) -> bool {
    scenario::needs_two_cpus(name) || floors::needs_two_cpus(name)
}

/// All entries in the order of the report: the scenarios of the backends, the floors, the debug entries.
/// Scenarios of one name are next to each other, in the order of the backends.
pub fn all(backends: Vec<Vec<BenchEntry>>) -> Vec<BenchEntry> {
    let mut entries: Vec<BenchEntry> = Vec::new();
    for backend in backends {
        // Where the last entry is that this backend has in common with the ones before.
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
