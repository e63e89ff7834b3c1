//! What a process holds, for tests in their own process.

use std::fs;

use testbed::await_that;

/// What a process holds: its descriptors without the numbers of their inodes, and its shared mappings.
#[derive(Debug, PartialEq, Eq)]
pub struct Holdings {
    descriptors: Vec<String>,
    mappings: Vec<String>,
}

impl Holdings {
    pub fn now() -> Self {
        let entries = fs::read_dir("/proc/self/fd").unwrap();
        let mut descriptors: Vec<_> = entries
            .filter_map(|entry| {
                let target = entry.ok()?.path().read_link().ok()?;
                let target = target.to_str()?.to_owned();
                (!target.ends_with("/fd")).then_some(target)
            })
            .collect();
        descriptors.sort();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let shared = maps.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let (range, flags) = (words.next()?, words.next()?);
            let name = words.nth(3).unwrap_or_default();
            flags
                .ends_with('s')
                .then(|| format!("{range} {flags} {name}"))
        });
        Self {
            descriptors,
            mappings: shared.collect(),
        }
    }

    /// Waits until the process holds this again: a backend may close a file on its own thread.
    pub fn await_again(&self) {
        await_that(&format!("{self:#?}"), || Self::now() == *self);
    }

    /// Returns the entries whose file name contains `part`.
    pub fn named(self, part: &str) -> Vec<String> {
        let mut all = [self.descriptors, self.mappings].concat();
        all.retain(|one| one.contains(part));
        all
    }
}
