//! The examples, as `cargo run --example` runs them.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "all of this is tests"
)]

#[path = "../examples/virtqueue.rs"]
mod virtqueue;

#[test]
fn the_virtqueue_example_gets_its_answers() {
    // Its main takes the brand, of which the process has one.
    let answers = virtqueue::exchange(&["look", "now"]).unwrap();
    assert_eq!(answers, ["LOOK", "NOW"]);
    assert!(virtqueue::main().is_err(), "there is one such queue");
}
