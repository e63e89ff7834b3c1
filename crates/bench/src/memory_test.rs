//! Memory that is allocated, written and freed, all in the process of the tests.
#![cfg(target_env = "gnu")]
// Other C libraries' allocators do not return memory.

use std::process::Command;

use super::*;

/// Far more than the other tests that run in the same process use.
const SIZE: usize = 128 << 20;
const PAGE: usize = 4096;

#[test]
fn memory_counts_from_its_first_write_until_it_is_freed() {
    let of_self = || in_use(&[]).unwrap().unwrap();
    let before = of_self();
    let is_in_use = |now: u64| now > before + SIZE as u64 / 2;
    // Each page is allocated separately, so that freeing returns it to the allocator, not to the kernel.
    let pages: Vec<Vec<u8>> = (0..SIZE / PAGE).map(|_| vec![1; PAGE]).collect();
    assert!(is_in_use(of_self()));
    drop(pages);
    assert!(!is_in_use(of_self()));

    let mut one = Vec::<u8>::with_capacity(SIZE);
    assert!(!is_in_use(of_self()));
    one.resize(SIZE, 1);
    assert!(is_in_use(of_self()));
}

#[test]
fn a_process_that_has_ended_has_no_memory_to_count() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    assert!(in_use(&[pid]).is_err());
}
