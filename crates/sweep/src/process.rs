//! What `/proc` says about a paused VMM: which of its eventfds are unread, and how much CPU time it used.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

/// The maximum number of descriptors to look at.
const MOST: usize = 4096;

/// An eventfd that was signalled and not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnreadEventfd {
    /// The lowest of the VMM's descriptors for it. Unlike the kernel's number, it is the same in each run of a VMM.
    pub descriptor: u32,
    /// Its count.
    pub count: u64,
}

/// The unread eventfds of a process, each once.
pub fn unread_eventfds(pid: u32) -> io::Result<Vec<UnreadEventfd>> {
    let mut eventfds = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))?.take(MOST) {
        let entry = entry?;
        // A descriptor may be closed between the listing and the read.
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let name = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        eventfds.extend(eventfd(&text).zip(name));
    }
    Ok(unread(eventfds))
}

/// Each unread eventfd once, of all eventfds with their descriptors.
fn unread(mut eventfds: Vec<((Option<u64>, u64), u32)>) -> Vec<UnreadEventfd> {
    eventfds.sort_unstable_by_key(|(_, descriptor)| *descriptor);
    let mut seen = BTreeSet::new();
    // Kernels before 5.2 do not print which descriptors share an eventfd.
    eventfds.retain(|((id, count), _)| *count != 0 && id.is_none_or(|id| seen.insert(id)));
    let unread = eventfds.into_iter();
    unread
        .map(|((_, count), descriptor)| UnreadEventfd { descriptor, count })
        .collect()
}

/// The number and the count of an eventfd in its fdinfo (Linux, `fs/eventfd.c`): the count is hexadecimal, the number
/// decimal.
fn eventfd(text: &str) -> Option<(Option<u64>, u64)> {
    let value = |name: &str| {
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name));
        Some(values.next()?.trim())
    };
    let id = value("eventfd-id:").and_then(|id| id.parse().ok());
    let count = u64::from_str_radix(value("eventfd-count:")?, 16).ok()?;
    Some((id, count))
}

/// The CPU time of all threads of a process, in nanoseconds; 0 for a process that has ended.
pub fn cpu_time(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let times = threads
        .into_iter()
        .flatten()
        .take(MOST)
        .filter_map(|thread| {
            let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            text.split_ascii_whitespace().next()?.parse::<u64>().ok()
        });
    times.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_eventfds_count_is_hexadecimal() {
        let text = "pos:\t0\nflags:\t02004002\nmnt_id:\t15\neventfd-count:               1a\neventfd-id: 12\neventfd-semaphore: 0\n";
        assert_eq!(eventfd(text), Some((Some(12), 0x1a)));
        assert_eq!(eventfd("pos:\t0\nflags:\t02\n"), None);
    }

    #[test]
    fn an_eventfd_has_the_number_of_its_lowest_descriptor() {
        let shared = (Some(12), 1);
        let eventfds = vec![(shared, 9), ((Some(13), 0), 4), ((None, 2), 5), (shared, 7)];
        let found = unread(eventfds).into_iter();
        let found: Vec<_> = found
            .map(|eventfd| (eventfd.descriptor, eventfd.count))
            .collect();
        assert_eq!(found, [(5, 2), (7, 1)]);
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        assert!(unread_eventfds(u32::MAX).is_err());
        assert_eq!(cpu_time(u32::MAX), 0);
    }

    #[test]
    fn this_process_has_used_the_cpu() {
        assert!(cpu_time(std::process::id()) > 0);
    }

    proptest! {
        #[test]
        fn any_fdinfo_is_read(text in "(eventfd-(count|id): *[0-9a-f]{0,20}\n|.{0,20}\n){0,4}") {
            let _ = eventfd(&text);
        }
    }
}
