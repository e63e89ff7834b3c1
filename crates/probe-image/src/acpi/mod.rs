//! The ACPI tables (specification 6.5) that the image needs. A parser gets the bytes of one table, which a hostile VMM
//! may have written: lengths within them are checked, and each loop makes progress.

pub mod dsdt;
pub mod fadt;
pub mod madt;
pub mod root;
pub mod tables;

/// The length of the header of every table except the RSDP.
pub const HEADER: usize = 36;
