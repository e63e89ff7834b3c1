//! Real KVM on machines without it: a stock Linux runs in QEMU's TCG or in Bochs, and runs a program.
//!
//! L0 is this host, L1 the Linux in the emulator, which has a real `/dev/kvm`, and L2 a guest of the program that runs
//! in L1. L1's architecture may differ from the host's. [`Provision`] finds QEMU and a kernel, or prepares them in the
//! cache, without root. [`Lab::run`] boots L1, runs one of this host's programs in it with its libraries, environment
//! and working directory, and returns how the program ended.
//!
//! Times measured in L1 say nothing about hardware. Useful results are behaviour, exit counts and, with
//! [`boot::TimeMode::Deterministic`], instruction counts.

pub mod apt;
pub mod arch;
pub mod board;
pub mod bochs;
pub mod boot;
pub mod cache;
pub mod debian;
pub mod device;
pub mod device_tree;
pub mod init;
pub mod initramfs;
pub mod job;
pub mod kernel;
pub mod out_of_tree;
pub mod qemu;
pub mod saved;
pub mod selftests;
pub mod spin;
pub mod tracefs;

mod begin;
mod complaints;
mod debug_kernel;
mod error;
mod files;
mod first;
mod kvm;
mod lab;
mod nest;
mod own_sources;
mod payload;
mod prepare;
mod progress;
mod provision;
#[cfg(test)]
mod read_only;
mod records;
mod run;
mod time_left;
mod tree;
mod unfinished;

pub use begin::Began;
pub use error::{LabError, LabFailure};
pub use files::OutFiles;
pub use kvm::{KvmChanges, KvmParameter, kvm_parameters};
pub use lab::{Emulator, Lab};
pub use payload::LabTask;
pub use prepare::LabKernel;
pub use progress::{LabProgress, progress_bar, style};
pub use provision::{KernelChoice, Netperf, PackageRecipe, Provision, ProvisionKind, Recipe};
pub use records::record;
pub use run::LabOutcome;
pub use time_left::TimeLeft;
pub use unfinished::abandon;
