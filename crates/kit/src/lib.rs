//! What the tests of several crates share: waits without an asserted duration, terminals and signals for commands,
//! images to boot, and checks of reports and metrics. Each runs on the test's thread.
//!
//! It uses no other crate of the workspace, so each crate's own unit tests can use it without a second copy of the
//! crate's types.
#![allow(
    clippy::unwrap_used,
    reason = "an error of a test's own doing fails the test"
)]

pub mod advised;
pub mod image;
pub mod openmetrics;
pub mod schema;
pub mod signals;
pub mod terminal;
pub mod wait;
