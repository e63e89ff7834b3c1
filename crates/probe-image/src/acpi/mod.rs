//! The tables of ACPI (specification 6.5), as far as the image needs them. A parser gets the bytes of one table, which
//! a hostile VMM may have written: lengths within them are checked, and each loop makes progress.

pub mod dsdt;
pub mod fadt;
pub mod madt;
pub mod root;
pub mod tables;

/// The length of the header that every table but the RSDP begins with.
pub const HEADER: usize = 36;
