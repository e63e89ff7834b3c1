//! Tests of CPU time.

use super::*;

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
