//! vmbell's virtio device, whose threads serve a queue, complete its requests, stop it and reset it at the same time.
//! Prints the number of executions of each scenario.
#![cfg(vmbell_check)]

use vmbell_check::Explorer;
use vmbell_subjects::threads::Act::{Complete, Notify, Reset, Serve, Stop};
use vmbell_subjects::threads::{Act, explore};

fn loses_nothing(acts: &[Act]) {
    let report =
        explore(&Explorer::new().seconds(vmbell_subjects::HANG), acts).expect("it can be explored");
    println!("{acts:?}\n{report}");
    report.assert_complete().assert_no_failure();
}

#[test]
fn two_threads_that_serve_lose_nothing() {
    loses_nothing(&[Serve, Notify]);
}

#[test]
fn a_completion_while_another_thread_serves_is_given_back() {
    loses_nothing(&[Complete, Notify]);
}

#[test]
fn two_threads_that_serve_and_one_that_completes_lose_nothing() {
    loses_nothing(&[Serve, Notify, Complete]);
}

#[test]
fn after_a_stop_no_thread_uses_the_ring() {
    loses_nothing(&[Stop, Notify, Complete]);
}

#[test]
fn after_a_reset_no_thread_uses_the_ring_of_before() {
    loses_nothing(&[Reset, Notify]);
}

#[test]
fn after_a_reset_a_completion_of_before_has_no_effect() {
    loses_nothing(&[Reset, Complete]);
}

#[test]
fn a_ring_after_a_reset_is_served_without_the_completions_of_before() {
    loses_nothing(&[Reset, Serve, Complete]);
}
