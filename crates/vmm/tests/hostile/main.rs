//! Guests that break what they can. Each has its expected end: a clear error, the monitor unharmed,
//! no sandbox left.
// Empty on other architectures: these tests are about the usermode backend, which x86-64 alone has.
#![cfg(target_arch = "x86_64")]
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "all of this is tests"
)]

#[path = "../harness/mod.rs"]
mod harness;

mod break_in;
mod crimes;
mod death;
mod gadget;
mod patching;
mod scribble;
mod stacks;
mod start;
mod starved;
