//! What is explored, and what is found there: one program, because each is compiled and linked separately.
#![allow(
    clippy::tests_outside_test_module,
    reason = "the whole program is tests"
)]

mod bad_input;
mod bells;
mod crashes;
mod hooks;
mod litmus;
mod machine;
mod models;
mod native;
mod reference;
mod rings;
