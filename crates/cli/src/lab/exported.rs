//! Reports that a command writes in L1 and that are copied to files of this host.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::args::exports::{distinct, replaced};
use vmbell_lab::LabOutcome;
use vmbell_lab::job::OUT_FOLDER;
use vmbell_report::{Export, Exporter};

/// A report that is copied from L1 to a file of this host.
#[derive(Debug)]
pub(super) struct Exported {
    exporter: Exporter,
    to: Export,
}

impl Exported {
    /// Opens the files on this host, which must not be among `read`. Stdout needs no copy, because the command's output
    /// in L1 arrives on this host's stdout.
    pub(super) fn open(
        given: &[(Exporter, PathBuf)],
        read: &[PathBuf],
    ) -> anyhow::Result<Vec<Self>> {
        let paths: Vec<&Path> = given.iter().map(|(_, path)| path.as_path()).collect();
        distinct(&paths)?;
        if let Some(path) = replaced(&paths, read) {
            let path = path.display();
            bail!(
                "the export would replace '{path}', which the command reads: give it another name"
            );
        }
        let mut exports = Vec::new();
        for (exporter, path) in given {
            let to = Export::open(path)?;
            if !to.is_stdout() {
                let exporter = *exporter;
                exports.push(Self { exporter, to });
            }
        }
        Ok(exports)
    }

    /// The name of the file in L1's folder.
    fn name(&self) -> String {
        format!("report.{}", self.exporter.extension)
    }

    /// The option of the command in L1, and its value there.
    pub(super) fn in_l1(&self) -> (&'static str, OsString) {
        let path = Path::new(OUT_FOLDER).join(self.name());
        (self.exporter.option, path.into())
    }

    /// Copies the file that L1 wrote.
    pub(super) fn finish(
        exports: Vec<Self>,
        outcome: &mut LabOutcome,
        status: u8,
    ) -> anyhow::Result<()> {
        for export in exports {
            let name = &export.name();
            let text = match &mut outcome.files {
                Some(files) => files
                    .text(name)
                    .with_context(|| format!("cannot read {name} of L1"))?,
                None => None,
            };
            match text {
                Some(text) => export.to.finish(&text)?,
                None if status == 0 => bail!("L1 left no {name}"),
                // The command failed before it wrote the file, and has printed why.
                None => {}
            }
        }
        Ok(())
    }
}
