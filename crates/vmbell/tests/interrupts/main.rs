//! Interrupts, from whoever raises them to the guest's handler and back.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "all of this is tests"
)]

#[path = "../harness/mod.rs"]
mod harness;

use harness::taker;

mod armed;
mod bad;
mod bare;
mod closed;
mod delivery;
mod eoi;
mod halts;
mod held;
mod irqfds;
mod levels;
mod logged;
mod order;
mod resamplers;
mod storms;
mod vcpus;
