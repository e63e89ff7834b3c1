//! Mutants: sides, restores and notifications with one defect each. The checker kills each, or it is named as equivalent.
//!
//! `cargo vmbell-check test --test mutants -- --nocapture` prints the tables: the model, the scenario and the number of
//! executions until the defect shows. Models are tried from the strongest on, so that TSO and RC11 mean that no stronger
//! model shows it.

mod callers;
#[cfg(vmbell_check)]
mod combiner;
mod memory;
mod notifications;
mod packed;
mod restore;
mod split;
mod table;
