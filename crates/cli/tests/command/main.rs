//! The command from outside: every subcommand, every way to ask wrongly, every way to end.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "the whole program is tests"
)]

mod bench;
mod common;
mod ends;
mod others;
mod report;
mod run_image;
mod schema;
mod stat;
mod virtqueue;
