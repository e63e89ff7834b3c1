//! Finds notifications that a VMM loses when it pauses, saves and restores a guest, at many instants of its traffic.
//!
//! [`ring`] reads from a paused VM what is open: requests that have no answer, and answers that the driver has not
//! taken. [`memory`] reaches the guest's memory, [`process`] the VMM's eventfds. [`guest`] parses what the guest prints,
//! [`diagnosis`] names the fault, [`verdict`] says whether the VMM is to blame. [`instant`] chooses when the VM is
//! paused, [`report`] is the result, [`merge`] joins shards, [`api`] sends commands to VMMs. Guest memory, the VMM's
//! files and the guest's output are not trusted: what is read is bounded and checked.

pub mod api;
pub mod diagnosis;
pub mod edit;
pub mod guest;
pub mod instant;
pub mod memory;
pub mod merge;
pub mod process;
pub mod report;
pub mod ring;
pub mod verdict;
