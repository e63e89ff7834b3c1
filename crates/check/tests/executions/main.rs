//! What is explored, and what is found: one program, because each program is compiled and linked separately.
#![allow(
    clippy::tests_outside_test_module,
    reason = "the whole program is tests"
)]

mod bad_input;
mod bells;
mod crashes;
mod hooked;
mod hooks;
mod litmus;
mod locks;
mod machine;
mod models;
mod mutants;
mod native;
mod published;
mod rings;
mod weaken;

// The paths of these modules decide whose code they count as.
#[path = "library/core/src/sync/atomic.rs"]
mod atomic_of_core;
#[path = "library/alloc/src/sync.rs"]
mod sync_of_alloc;

use proptest::prelude::ProptestConfig;

/// How many random programs a property is tested with: 500, or the value of the variable, which is 2,000 in `.ci/run`.
fn config() -> ProptestConfig {
    let cases =
        std::env::var("VMBELL_CHECK_CASES").map_or(500, |cases| cases.parse().expect("a number"));
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}
