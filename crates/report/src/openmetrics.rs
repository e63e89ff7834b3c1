//! The report for fleet monitoring: OpenMetrics text that is also valid in Prometheus' older text format.
//!
//! A host's textfile collector (node_exporter) reads only the older format, so all types are gauges, there are no time
//! stamps, and names end with units. Labels have few values: names of scenarios, floors and backends. What is not known
//! has no sample, nor have times and ratios of an emulated CPU, which say nothing about the host.

use super::metrics_text::{Label, MetricsText};
use super::timestamp::unix_seconds;
use super::{Report, Row, Status, Timing};

/// Writes the medians of `report`, with what readers of a dashboard need to judge them.
pub fn openmetrics(report: &Report) -> String {
    let mut text = Text(MetricsText::default());
    text.of_the_run(report);
    text.of_rows(report);
    text.0.finish()
}

struct Text(MetricsText);

impl Text {
    fn of_the_run(&mut self, report: &Report) {
        let host = &report.host;
        self.family(
            "vmbell_run_info",
            "The program that measured, and the host that it measured on.",
        );
        self.sample(
            "vmbell_run_info",
            &[
                ("version", &report.tool.version),
                ("revision", report.tool.git.as_deref().unwrap_or_default()),
                ("timing", report.timing.name()),
                ("kernel", &host.kernel),
                ("cpu", &host.cpu),
                ("microcode", host.microcode.as_deref().unwrap_or_default()),
                ("arch", &host.arch),
                ("hypervisor", host.hypervisor.as_deref().unwrap_or_default()),
            ],
            1.0,
        );
        #[allow(clippy::cast_precision_loss, reason = "far fewer seconds than 2^53")]
        let started = unix_seconds(&report.started).map(|seconds| seconds as f64);
        self.gauge(
            "vmbell_run_start_timestamp_seconds",
            "When measuring began, in Unix time.",
            started,
        );
        self.gauge(
            "vmbell_run_duration_seconds",
            "How long the whole run took.",
            Some(report.duration),
        );
        let is_whole = !report.ended_early();
        self.gauge(
            "vmbell_run_complete",
            "1 if the run ended by itself, 0 if a signal or its time limit ended it.",
            Some(f64::from(u8::from(is_whole))),
        );
    }

    fn of_rows(&mut self, report: &Report) {
        self.rows(
            report,
            "vmbell_operation_measured",
            "1 if the row was measured, 0 if it failed; a row that was skipped has no sample.",
            |row| match row.status() {
                Status::Ok => Some(1.0),
                Status::Failed => Some(0.0),
                Status::Skipped => None,
            },
        );
        match report.timing {
            Timing::Native => {
                self.rows(
                    report,
                    "vmbell_operation_seconds",
                    "The median time per operation.",
                    |row| Some(row.median().filter(|_| row.timing_valid)? / 1e9),
                );
                self.rows(
                    report,
                    "vmbell_operation_spread_ratio",
                    "The median absolute deviation of the runs times 1.4826, as a share of the median.",
                    |row| row.times()?.spread.filter(|_| row.timing_valid),
                );
            }
            Timing::Emulated => {}
            Timing::Instructions => self.rows(
                report,
                "vmbell_operation_instructions",
                "The median number of instructions per operation.",
                Row::median,
            ),
        }
        self.exits(report);
        self.memory(report);
        if report.timing != Timing::Emulated {
            self.ratios(report);
        }
    }

    fn exits(&mut self, report: &Report) {
        let name = "vmbell_operation_exits";
        self.family(
            name,
            "Exits per operation: light ones are handled in the kernel, heavy ones by the VMM; a total where they cannot be told apart.",
        );
        for row in measured(report) {
            let Some(exits) = row.exits() else { continue };
            let kinds = match exits.userspace {
                Some(heavy) => [("light", exits.light()), ("heavy", Some(heavy))],
                None => [("total", exits.total), ("heavy", None)],
            };
            for (kind, exits) in kinds {
                if let Some(exits) = exits {
                    self.of_row(name, row, &[("kind", kind)], exits);
                }
            }
        }
    }

    /// Only a few reports have this family, so the others leave it out.
    #[allow(
        clippy::cast_precision_loss,
        reason = "sizes of a program are far below 2^53"
    )]
    fn memory(&mut self, report: &Report) {
        let processes: fn(&Row) -> Option<f64> = |row| Some(row.measured()?.memory? as f64);
        let kernel: fn(&Row) -> Option<f64> = |row| Some(row.measured()?.kernel_memory? as f64);
        let families = [
            (
                "vmbell_operation_memory_bytes",
                "By how much an operation enlarges the memory of all processes that take part.",
                processes,
            ),
            (
                "vmbell_operation_kernel_memory_bytes",
                "By how much an operation enlarges what the kernel keeps for these processes.",
                kernel,
            ),
        ];
        for (name, help, memory) in families {
            if measured(report).any(|row| memory(row).is_some()) {
                self.rows(report, name, help, memory);
            }
        }
    }

    fn ratios(&mut self, report: &Report) {
        let name = "vmbell_operation_ratio";
        self.family(
            name,
            "The median divided by that of the row's reference, most often the device model.",
        );
        let counts = report.timing == Timing::Instructions;
        for row in measured(report).filter(|row| row.timing_valid || counts) {
            if let Some(ratio) = row.ratio() {
                self.of_row(name, row, &[("reference", &ratio.reference)], ratio.value);
            }
        }
    }

    /// A family with one sample for each row that has a value.
    fn rows(
        &mut self,
        report: &Report,
        name: &str,
        help: &str,
        value: impl Fn(&Row) -> Option<f64>,
    ) {
        self.family(name, help);
        for row in &report.results {
            if let Some(value) = value(row) {
                self.of_row(name, row, &[], value);
            }
        }
    }

    fn of_row(&mut self, name: &str, row: &Row, more: &[Label<'_>], value: f64) {
        let mut labels = vec![
            ("scenario", row.command.as_str()),
            ("group", row.group.name()),
            ("backend", &row.backend),
        ];
        labels.extend_from_slice(more);
        self.sample(name, &labels, value);
    }

    /// A family with one sample, or none.
    fn gauge(&mut self, name: &str, help: &str, value: Option<f64>) {
        self.family(name, help);
        if let Some(value) = value {
            self.sample(name, &[], value);
        }
    }

    fn family(&mut self, name: &str, help: &str) {
        self.0.family(name, "gauge", help);
    }

    fn sample(&mut self, name: &str, labels: &[Label<'_>], value: f64) {
        self.0.sample(name, labels, value);
    }
}

/// The rows that were measured.
fn measured(report: &Report) -> impl Iterator<Item = &Row> {
    report.results.iter().filter(|row| row.is_ok())
}

#[cfg(test)]
#[path = "openmetrics_test.rs"]
mod tests;
