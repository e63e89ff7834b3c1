//! The samples as CSV, one row for each; the tables on a terminal and in Markdown leave them out.

use std::fmt::Write;

use super::{Report, Timing};

/// Writes every sample of `report`; an entry that was not measured has no rows.
pub fn csv(report: &Report) -> String {
    let measured = match report.timing {
        Timing::Native => "ns_per_op",
        Timing::Emulated => "emulated_ns_per_op",
        Timing::Instructions => "instructions_per_op",
    };
    let mut text = format!("command,group,backend,spin,run,ops,{measured}\n");
    for row in &report.results {
        for (run, ns) in row.samples_ns.iter().enumerate() {
            // Writing to a String cannot fail. No name contains a comma or a quote: names are
            // identifiers of this program.
            let _ = writeln!(
                text,
                "{},{},{},{},{},{},{ns}",
                row.command,
                row.group.name(),
                row.backend,
                row.spin.as_deref().unwrap_or_default(),
                run + 1,
                row.ops_of(run),
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_heading_names_the_unit() {
        let heading = |report: &Report| csv(report).lines().next().map(str::to_owned);
        let columns = "command,group,backend,spin,run,ops,";
        let mut report = sample::counted();
        assert_eq!(
            heading(&report),
            Some(format!("{columns}instructions_per_op"))
        );
        report.timing = Timing::Emulated;
        assert_eq!(
            heading(&report),
            Some(format!("{columns}emulated_ns_per_op"))
        );
        report.timing = Timing::Native;
        assert_eq!(heading(&report), Some(format!("{columns}ns_per_op")));
    }
}
