//! The entries that a command line selects: by names, by globs, and as companions.

use super::compare::FIRST;
use super::{BenchEntry, NeededDevice};
use vmbell_report::Group;
use wildmatch::WildMatch;

/// The minimum similarity (0 to 1) of a typing error: characters that are missing, extra, changed or swapped.
const MISTYPED: f64 = 0.6;
/// How similar (0 to 1) the typed text must be to the beginning of a name.
const BEGUN: f64 = 0.85;

/// Whether this architecture has I/O ports.
pub(crate) const HAS_PORTS: bool = cfg!(target_arch = "x86_64");

/// Why a name or glob selects nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// No entry has the name.
    #[error("unknown scenario '{name}'{hint}")]
    Unknown {
        /// The name as the user typed it.
        name: String,
        /// The name of a similar entry, as [`did_you_mean`] suggests it.
        hint: String,
    },
    /// The name or glob is for entries that ring a port, and this architecture has no ports.
    #[error("'{0}' needs port I/O, which this architecture does not have: 'mmio-*' rings there")]
    NoPorts(String),
    /// No entry matches the glob.
    #[error("no scenario matches '{0}'")]
    NoMatch(String),
}

/// The name in `names` that is most similar to `typed`; `None` if no name is similar.
pub fn similar<'n>(typed: &str, names: &[&'n str]) -> Option<&'n str> {
    let similarity = |name: &&'n str| {
        let mistyped = strsim::normalized_damerau_levenshtein(typed, name);
        let begun = strsim::jaro_winkler(typed, name);
        (mistyped >= MISTYPED || begun >= BEGUN).then_some((mistyped.max(begun), *name))
    };
    let names = names.iter().filter_map(similarity);
    let most = names.max_by(|a, b| a.0.total_cmp(&b.0));
    most.map(|(_, name)| name)
}

/// Returns `, did you mean 'NAME'?` with the most similar name in `names`, or nothing if none is similar.
pub fn did_you_mean(typed: &str, names: &[&str]) -> String {
    let similar = similar(typed, names);
    similar.map_or_else(String::new, |name| format!(", did you mean '{name}'?"))
}

/// Which entries a command is to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedEntries<'p> {
    /// The entries that answer the first questions about a host ([`FIRST`]).
    First,
    /// All except the debug entries, and entries for devices that this host does not have.
    All,
    /// The entries that these names and globs match.
    Named {
        /// The names and globs.
        patterns: &'p [String],
        /// Whether an entry brings the entry that it is compared with, and a scenario brings all floors, without which
        /// its time says little.
        companions: bool,
    },
}

/// The entries that are `wanted`, in catalogue order, each once. A name selects its entries on all backends.
pub fn select(
    all: Vec<BenchEntry>,
    wanted: WantedEntries<'_>,
) -> Result<Vec<BenchEntry>, SelectError> {
    let is_in = |entry: &BenchEntry| match wanted {
        WantedEntries::First => FIRST.contains(&entry.base()),
        WantedEntries::All => {
            let is_ready = |device: &NeededDevice| (device.is_ready)();
            entry.group() != Group::Debug && entry.device().is_none_or(is_ready)
        }
        WantedEntries::Named { .. } => false,
    };
    let mut marked: Vec<bool> = all.iter().map(is_in).collect();
    if let WantedEntries::Named {
        patterns,
        companions,
    } = wanted
    {
        for pattern in patterns {
            mark(&all, pattern, &mut marked)?;
        }
        if companions {
            mark_companions(&all, &mut marked);
        }
    }
    Ok(all
        .into_iter()
        .zip(marked)
        .filter_map(|(entry, marked)| marked.then_some(entry))
        .collect())
}

/// Makes `name` the entry that all others are compared with.
pub fn set_reference(all: Vec<BenchEntry>, name: &str) -> Result<Vec<BenchEntry>, SelectError> {
    mark(&all, name, &mut vec![false; all.len()])?;
    Ok(all
        .into_iter()
        .map(|entry| {
            if entry.name() == name {
                entry.without_reference()
            } else {
                entry.with_reference(name)
            }
        })
        .collect())
}

fn mark(all: &[BenchEntry], pattern: &str, wanted: &mut [bool]) -> Result<(), SelectError> {
    let is_glob = is_glob(pattern);
    let mut found = false;
    for (entry, wanted) in all.iter().zip(wanted.iter_mut()) {
        let is_hidden = is_glob && entry.group() == Group::Debug;
        let hit = entry.name() == pattern || (!is_hidden && picks(pattern, entry.base()));
        *wanted |= hit;
        found |= hit;
    }
    match (found, is_glob) {
        (true, _) => Ok(()),
        (false, _) if !HAS_PORTS && means_ports(pattern) => {
            Err(SelectError::NoPorts(pattern.to_owned()))
        }
        (false, true) => Err(SelectError::NoMatch(pattern.to_owned())),
        (false, false) => {
            let shown = all.iter().filter(|entry| entry.group() != Group::Debug);
            let names: Vec<&str> = shown.map(BenchEntry::name).collect();
            Err(SelectError::Unknown {
                name: pattern.to_owned(),
                hint: did_you_mean(pattern, &names),
            })
        }
    }
}

/// Whether the name or glob is for entries that ring a port.
fn means_ports(pattern: &str) -> bool {
    pattern.contains("portio") || pattern.starts_with("outl_") || pattern.ends_with("-run-pio")
}

fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}

/// Whether a name or glob of the command line matches the entry with this base name.
pub fn picks(pattern: &str, base: &str) -> bool {
    if is_glob(pattern) {
        WildMatch::new(pattern).matches(base)
    } else {
        pattern == base
    }
}

fn mark_companions(all: &[BenchEntry], wanted: &mut [bool]) {
    let chosen: Vec<&BenchEntry> = all
        .iter()
        .zip(wanted.iter())
        .filter_map(|(entry, wanted)| wanted.then_some(entry))
        .collect();
    let has_scenario = chosen.iter().any(|entry| entry.group() == Group::Scenario);
    for (entry, wanted) in all.iter().zip(wanted.iter_mut()) {
        let is_reference = chosen
            .iter()
            .any(|other| other.reference() == Some(entry.name()));
        *wanted |= is_reference || (has_scenario && entry.group() == Group::Floor);
    }
}

#[cfg(test)]
#[path = "select_test.rs"]
mod tests;
