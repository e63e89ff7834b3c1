//! Mutants: sides, restores and notifications with one defect each. The checker kills each that is not equivalent.
//!
//! `cargo vmbell-check test --test mutants -- --nocapture` prints the tables: the model, the scenario and the number of
//! executions until the defect shows. Models are tried from the strongest on: TSO or RC11 means that no stronger model
//! shows the defect.

mod callers;
#[cfg(vmbell_check)]
mod combiner;
mod memory;
mod notifications;
mod packed;
mod restore;
mod split;
mod table;
