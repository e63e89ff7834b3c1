//! What a monitor has after a guest must be what it had before: descriptors, threads, children, mappings.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use testbed::HANG;
use testbed::process::children_of;

/// What this process has.
#[derive(Debug, PartialEq, Eq)]
pub struct Holdings {
    descriptors: Vec<String>,
    threads: Vec<String>,
    children: Vec<i32>,
    /// Of the files that sandboxes share.
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

/// How many descriptors this process has.
pub fn descriptors() -> usize {
    names("/proc/self/fd").len()
}

impl Holdings {
    /// What it has now.
    pub fn now() -> Self {
        let descriptors = names("/proc/self/fd").into_iter().filter_map(|number| {
            let target = fs::read_link(Path::new("/proc/self/fd").join(&number)).ok()?;
            // The number of an inode says nothing, and the folder is open for this look only.
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

    /// Waits until it has this again; a thread that was joined may be seen for a moment.
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
