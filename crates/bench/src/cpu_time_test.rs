//! Tests of CPU time.

use super::*;

#[test]
fn a_command_with_spaces_and_parentheses_does_not_shift_fields() {
    let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 77 88 0 0 20 0 1 0 5 6 7";
    assert_eq!(ticks(stat), Some((77, 88)));
}

#[test]
fn cpu_time_of_a_busy_thread_advances() {
    let before = CpuTime::so_far(&[]);
    let mut x = 1_u64;
    while CpuTime::so_far(&[]).since(before).user < 0.01 {
        for i in 0..100_000 {
            x = std::hint::black_box(x.wrapping_mul(31).wrapping_add(i));
        }
    }
}

#[test]
fn this_process_is_readable_through_proc() {
    assert!(of_process(std::process::id()).is_some());
    assert!(of_process(u32::MAX).is_none());
}
