//! Reports that a command in L1 writes and that are copied to files of this host.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;

use vmbell_lab::Outcome;
use vmbell_lab::job::OUT_FOLDER;
use vmbell_report::Export;

/// Where the report is written on this host.
#[derive(Args, Debug)]
pub(super) struct ReportFiles {
    /// Write the report as JSON; - is stdout
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
    /// Write the report as Markdown; - is stdout
    #[arg(long, value_name = "FILE")]
    export_markdown: Option<PathBuf>,
    /// Write every sample as CSV; - is stdout
    #[arg(long, value_name = "FILE")]
    export_csv: Option<PathBuf>,
}

/// A report that is copied from L1 to a file of this host.
pub(super) struct Exported {
    option: &'static str,
    name: &'static str,
    to: Export,
}

impl ReportFiles {
    fn files(&self) -> [(&'static str, &'static str, Option<&Path>); 3] {
        [
            ("--export-json", "report.json", self.export_json.as_deref()),
            (
                "--export-markdown",
                "report.md",
                self.export_markdown.as_deref(),
            ),
            ("--export-csv", "report.csv", self.export_csv.as_deref()),
        ]
    }

    /// The exports to files of this host. What the command prints to stdout in L1 arrives on stdout here anyway.
    pub(super) fn open(&self) -> anyhow::Result<Vec<Exported>> {
        let mut exports = Vec::new();
        for (option, name, path) in self.files() {
            if let Some(path) = path {
                let to = Export::open(path)?;
                if !to.is_stdout() {
                    exports.push(Exported { option, name, to });
                }
            }
        }
        Ok(exports)
    }

    /// The options of the command in L1.
    pub(super) fn words(&self, exports: &[Exported]) -> Vec<OsString> {
        let mut words = Vec::new();
        for export in exports {
            let path = Path::new(OUT_FOLDER).join(export.name);
            words.extend([export.option.into(), path.into()]);
        }
        for (option, _, path) in self.files() {
            if path == Some(Path::new("-")) {
                words.extend([option.into(), "-".into()]);
            }
        }
        words
    }
}

impl Exported {
    /// Copies what L1 left.
    pub(super) fn finish(
        exports: Vec<Self>,
        outcome: &mut Outcome,
        status: u8,
    ) -> anyhow::Result<()> {
        for export in exports {
            let name = export.name;
            let text = match &mut outcome.files {
                Some(files) => files
                    .text(name)
                    .with_context(|| format!("cannot read {name} of L1"))?,
                None => None,
            };
            match text {
                Some(text) => export.to.finish(&text)?,
                None if status == 0 => bail!("L1 left no {name}"),
                // The command failed before it wrote anything, and has already said why.
                None => {}
            }
        }
        Ok(())
    }
}
