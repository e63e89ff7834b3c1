//! Reports that a command in L1 writes and that are copied to files of this host.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, bail};

use crate::exports::ExportArgs;
use vmbell_lab::Outcome;
use vmbell_lab::job::OUT_FOLDER;
use vmbell_report::Export;

/// The names of the files in L1, in the order of the options.
const NAMES: [&str; 4] = ["report.json", "report.md", "report.csv", "report.prom"];

/// A report that is copied from L1 to a file of this host.
pub(super) struct Exported {
    option: &'static str,
    name: &'static str,
    to: Export,
}

impl Exported {
    /// The exports to files of this host. What the command prints to stdout in L1 arrives on stdout here anyway.
    pub(super) fn open(args: &ExportArgs) -> anyhow::Result<Vec<Self>> {
        let mut exports = Vec::new();
        for ((option, path), name) in args.given().into_iter().zip(NAMES) {
            if let Some(path) = path {
                let to = Export::open(path)?;
                if !to.is_stdout() {
                    exports.push(Self { option, name, to });
                }
            }
        }
        Ok(exports)
    }

    /// The options of the command in L1.
    pub(super) fn words(args: &ExportArgs, exports: &[Self]) -> Vec<OsString> {
        let mut words = Vec::new();
        for export in exports {
            let path = Path::new(OUT_FOLDER).join(export.name);
            words.extend([export.option.into(), path.into()]);
        }
        for (option, path) in args.given() {
            if path == Some(Path::new("-")) {
                words.extend([option.into(), "-".into()]);
            }
        }
        words
    }

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
