//! The examples, as `cargo run --example` runs them.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "all of this is tests"
)]

#[path = "../examples/polling.rs"]
mod polling;

#[test]
fn the_example_gets_its_answers() {
    // The example's `main` takes the brand, and the process has only one.
    let answers = polling::exchange(&["look", "now"]).unwrap();
    assert_eq!(answers, ["LOOK", "NOW"]);
    assert!(polling::main().is_err(), "there is one such queue");
}
