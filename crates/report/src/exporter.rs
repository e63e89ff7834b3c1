//! The files that a report can be exported to: [`EXPORTERS`] lists the formats.
//!
//! A new format needs a function that writes it and a line in the list. The options of the command, the files that the
//! lab brings back, and the help text follow from that.

use crate::{Look, Report, Run, TimeUnit, blocks, csv, json, markdown, openmetrics, page};

/// A format that reports are exported to.
#[derive(Clone, Copy, Debug)]
pub struct Exporter {
    /// The option that exports to this format, without its hyphens: `export-json`.
    pub option: &'static str,
    /// The extension of files in this format.
    pub extension: &'static str,
    /// The help text of the option.
    pub help: &'static str,
    /// Writes a report. A format for people shows times in the given unit, or in the unit that fits each.
    pub write: fn(&Report, Option<TimeUnit>) -> String,
}

/// All formats, in the order of the options.
pub const EXPORTERS: [Exporter; 5] = [
    Exporter {
        option: "export-json",
        extension: "json",
        help: "Write the report as JSON; - is stdout",
        write: |report, _| json(report),
    },
    Exporter {
        option: "export-markdown",
        extension: "md",
        help: "Write the report as Markdown; - is stdout",
        write: |report, unit| {
            let look = Look {
                verbose: true,
                unit,
                ..Look::default()
            };
            markdown(&blocks(report, look))
        },
    },
    Exporter {
        option: "export-html",
        extension: "html",
        help: "Write the report as a page for a browser, as vmbell report does; - is stdout",
        write: |report, _| {
            let run = Run {
                name: report.started.clone(),
                report: report.clone(),
            };
            page(&[run])
        },
    },
    Exporter {
        option: "export-csv",
        extension: "csv",
        help: "Write every sample as CSV; - is stdout",
        write: |report, _| csv(report),
    },
    Exporter {
        option: "export-openmetrics",
        extension: "prom",
        help: "Write the medians as OpenMetrics text, for example to a folder that node_exporter's textfile collector reads; - is stdout",
        write: |report, _| openmetrics(report),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn formats_have_names_and_extensions_of_their_own_and_write_something() {
        let mut names = Vec::new();
        for exporter in EXPORTERS {
            names.extend([exporter.option, exporter.extension]);
            let text = (exporter.write)(&sample::report(), None);
            assert!(text.contains("portio-no-eventfd"), "{exporter:?}");
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
