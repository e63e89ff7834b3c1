//! What `/proc` says about a paused VMM: which of its eventfds are unread, and how much CPU time it used.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

/// The maximum number of descriptors to look at.
const MOST: usize = 4096;

/// An eventfd that was signalled and not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnreadEventfd {
    /// The kernel's number of the eventfd; several descriptors may share it.
    pub id: u64,
    /// Its count.
    pub count: u64,
}

/// The unread eventfds of a process, each once.
pub fn unread_eventfds(pid: u32) -> io::Result<Vec<UnreadEventfd>> {
    let mut unread = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))?.take(MOST) {
        // A descriptor may be closed between the listing and the read.
        let text = fs::read_to_string(entry?.path()).unwrap_or_default();
        unread.extend(eventfd(&text).filter(|eventfd| eventfd.count != 0));
    }
    unread.sort_unstable();
    unread.dedup();
    Ok(unread)
}

/// Parses the fdinfo of an eventfd (Linux, `fs/eventfd.c`): the count is hexadecimal, the number decimal.
fn eventfd(text: &str) -> Option<UnreadEventfd> {
    let value = |name: &str| {
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name));
        Some(values.next()?.trim())
    };
    Some(UnreadEventfd {
        // Kernels before 5.2 do not print the id.
        id: value("eventfd-id:")
            .and_then(|id| id.parse().ok())
            .unwrap_or(0),
        count: u64::from_str_radix(value("eventfd-count:")?, 16).ok()?,
    })
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
        assert_eq!(
            eventfd(text),
            Some(UnreadEventfd {
                id: 12,
                count: 0x1a
            })
        );
        assert_eq!(eventfd("pos:\t0\nflags:\t02\n"), None);
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
