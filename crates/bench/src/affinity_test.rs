//! Tests of pinning threads.

use super::*;

#[test]
fn pinning_holds_until_the_guard_is_dropped() {
    let before = allowed_cpus().unwrap();
    let last = *before.last().unwrap();
    let guard = Pinned::to(last).unwrap();
    assert_eq!(allowed_cpus().unwrap(), [last]);
    drop(guard);
    assert_eq!(allowed_cpus().unwrap(), before);
}

#[test]
fn an_absent_cpu_is_an_error_that_names_it() {
    let error = Pinned::to(1023).unwrap_err();
    assert!(error.to_string().contains("1023"), "{error}");
    let error = Pinned::to(1 << 20).unwrap_err();
    assert!(error.to_string().contains("1048576"), "{error}");
}

#[test]
fn a_pair_starts_with_the_first_allowed_cpu() {
    assert_eq!(default_pair(&[]), Vec::<usize>::new());
    assert_eq!(default_pair(&[5]), [5]);
    let pair = default_pair(&[0, 1]);
    assert_eq!(pair, [0, 1]);
}
