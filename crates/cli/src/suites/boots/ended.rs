//! What programs print and how they end: described for people, and kept in files.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::args::ColumnArgs;
use crate::output::text::{self, cleaned, lines_of};
use crate::process::{self, ProgramEnd, ProgramOutput, ProgramTask};
use vmbell_bench::CommandLimit;
use vmbell_lab::spin;

/// How long a program may take to print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// Describes how a program with this time limit ended.
pub(crate) fn in_words(end: &ProgramEnd, limit: Duration) -> String {
    match end {
        ProgramEnd::Exited(status) => format!("it ended with {status}"),
        ProgramEnd::Lingered | ProgramEnd::Stopped => "it was ended".to_owned(),
        ProgramEnd::TimeLimit => format!("it took longer than {limit:?}"),
        ProgramEnd::Spun => format!("the guest spun for {:?} without an exit", spin::PERIOD),
        ProgramEnd::TooMuch => "it printed more than 1 MiB and was ended".to_owned(),
    }
}

/// Keeps what a column's boot printed, if --keep is given.
pub(crate) fn keep(
    args: &ColumnArgs,
    column: &str,
    run: &str,
    ended: &ProgramOutput,
) -> Result<()> {
    let Some(folder) = &args.keep else {
        return Ok(());
    };
    for (suffix, bytes) in [("log", &ended.output), ("err", &ended.errors)] {
        let path = folder.join(format!("{column}-{run}.{suffix}"));
        let written = fs::File::create(&path).and_then(|mut file| file.write_all(bytes));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The last complaint of a program, otherwise the last line that it or its guest printed.
pub(crate) fn last_words(ended: &ProgramOutput) -> Option<String> {
    text::last_words(&ended.errors).or_else(|| text::last_words(&ended.output))
}

/// The first line that a program prints about its version.
pub(crate) fn version_of(program: &Path, option: &str, stop: &CommandLimit) -> Option<String> {
    let words: [OsString; 2] = [program.into(), option.into()];
    let ended = process::run(&ProgramTask::new(&words, VERSION_LIMIT, stop));
    let lines = lines_of(&ended.ok()?.output);
    lines.first().map(|line| cleaned(line))
}
