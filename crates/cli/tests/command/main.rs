//! The command from outside: every subcommand, wrong arguments, and every exit status. All tests are in one program,
//! because each program is compiled and linked separately, and because other tests run while one waits for a time
//! limit.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "the whole program is tests"
)]

mod advised;
mod at_limits;
mod bad_vmms;
mod before;
mod common;
mod compare;
mod creation;
mod diagram;
mod doubles;
mod ends;
mod eoi;
mod exports;
mod gate;
mod lab;
mod net;
mod others;
mod page;
mod paths;
mod probe_devices;
mod readers;
mod refused;
mod report;
mod rings;
mod run;
mod sweep;
mod top;
mod vmms;
