//! The samples as CSV, one row each: the summary of a report leaves them out.

use std::fmt::Write;

use super::Report;

/// Writes every sample; an entry that was not measured has none.
pub fn csv(report: &Report) -> String {
    let mut text = String::from("command,group,backend,spin,run,ops,ns_per_op\n");
    for outcome in &report.results {
        for (run, ns) in outcome.samples_ns.iter().enumerate() {
            // Writing to a String cannot fail. No name holds a comma or a quote: they are
            // identifiers of this program.
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{ns}",
                outcome.command,
                outcome.group.name(),
                outcome.backend,
                outcome.spin.as_deref().unwrap_or_default(),
                run + 1,
                outcome.ops_per_run,
            );
        }
    }
    text
}
