//! The files that a report can be exported to: each format is an [`Exporter`], and [`EXPORTERS`] lists them.
//!
//! A new format is a file with its writer and its exporter, and a line in the list: the options of the command, the files
//! that the lab brings back, and the help text follow from it.

use crate::{Look, Report, TimeUnit, blocks, csv, json, markdown, openmetrics};

/// A format that reports are exported to.
pub trait Exporter: std::fmt::Debug + Sync {
    /// The option of the command that exports to it, without its hyphens: `export-json`.
    fn option(&self) -> &'static str;

    /// The extension of its files.
    fn extension(&self) -> &'static str;

    /// The help text of the option.
    fn help(&self) -> &'static str;

    /// Writes `report`; a format for people has its times in `unit`, or in the unit that fits each.
    fn write(&self, report: &Report, unit: Option<TimeUnit>) -> String;
}

/// All formats, in the order of the options.
pub const EXPORTERS: [&dyn Exporter; 4] =
    [&json::Json, &Markdown, &csv::Csv, &openmetrics::OpenMetrics];

/// Markdown as an export.
#[derive(Debug)]
struct Markdown;

impl Exporter for Markdown {
    fn option(&self) -> &'static str {
        "export-markdown"
    }

    fn extension(&self) -> &'static str {
        "md"
    }

    fn help(&self) -> &'static str {
        "Write the report as Markdown; - is stdout"
    }

    fn write(&self, report: &Report, unit: Option<TimeUnit>) -> String {
        let look = Look {
            verbose: true,
            unit,
            ..Look::default()
        };
        markdown(&blocks(report, look))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn formats_have_names_and_extensions_of_their_own_and_write_something() {
        let mut names = Vec::new();
        for exporter in EXPORTERS {
            names.extend([exporter.option(), exporter.extension()]);
            let text = exporter.write(&sample::report(), None);
            assert!(text.contains("portio-no-eventfd"), "{exporter:?}");
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
