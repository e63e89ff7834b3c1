//! After a guest, a monitor must hold what it held before: descriptors, threads, children, mappings.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use testbed::HANG;
use testbed::process::children_of;

/// What this process holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Holdings {
    descriptors: Vec<String>,
    threads: Vec<String>,
    children: Vec<i32>,
    /// The number of mappings of files that sandboxes share.
    mappings: usize,
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// Returns the number of descriptors of this process.
pub fn descriptors() -> usize {
    names("/proc/self/fd").len()
}

impl Holdings {
    /// Returns what the process holds now.
    pub fn now() -> Self {
        let descriptors = names("/proc/self/fd").into_iter().filter_map(|number| {
            let target = fs::read_link(Path::new("/proc/self/fd").join(&number)).ok()?;
            // The inode number has no meaning, and the folder is open only for this listing.
            let target = target.to_str()?.split_once(":[").map_or_else(
                || target.to_str().unwrap_or_default().to_owned(),
                |(kind, _)| kind.to_owned(),
            );
            (!target.ends_with("/fd")).then(|| format!("{number} {target}"))
        });
        Self {
            descriptors: descriptors.collect(),
            threads: names("/proc/self/task"),
            children: children_of(std::process::id().cast_signed()),
            mappings: fs::read_to_string("/proc/self/maps")
                .unwrap()
                .matches("memfd:vmbell")
                .count(),
        }
    }

    /// Waits until the process holds this again; a thread that was joined may still be visible for a moment.
    pub fn await_again(&self) {
        let begun = Instant::now();
        loop {
            let now = Self::now();
            if now == *self {
                return;
            }
            if begun.elapsed() > HANG {
                panic!("leaked: before {self:?}, now {now:?}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
