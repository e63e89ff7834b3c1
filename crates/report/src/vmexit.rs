//! The report in the form of kvm-unit-tests' `vmexit`, for scripts that compare the two: `name cycles`,
//! one entry a line.

use std::fmt::Write;

use super::Report;
use super::{AddressSpace, Group, Row, Status};

/// Writes one line for each entry: its name and its median in cycles of the time stamp counter, or why
/// there is no median. The name of a doorbell gets the suffix of the `pci-testdev` BAR that it
/// corresponds to; if several backends ran guests, it begins with the backend's.
pub fn vmexit(report: &Report) -> String {
    let mut text = String::new();
    let several = report.backends.len() > 1;
    for row in &report.results {
        let name = match row.group {
            Group::Scenario if several => format!("{}/{}", row.backend, row.command),
            _ => row.command.clone(),
        };
        let suffix = bar(row);
        // Writing to a String cannot fail.
        let _ = match (row.median(), row.status()) {
            (Some(median), _) => {
                writeln!(
                    text,
                    "{name}{suffix} {:.0}",
                    median * report.tsc.hz / 1e9
                )
            }
            (None, Status::Skipped) => writeln!(text, "{name}{suffix} (skipped)"),
            (None, _) => writeln!(text, "{name}{suffix} (failed)"),
        };
    }
    text
}

/// `:pci-mem` for a doorbell in memory, `:pci-io` for one on a port.
const fn bar(row: &Row) -> &'static str {
    match row.setting.address_space {
        Some(AddressSpace::Mmio) => ":pci-mem",
        Some(AddressSpace::Pio) => ":pci-io",
        None => "",
    }
}

#[cfg(test)]
#[path = "vmexit_test.rs"]
mod tests;
