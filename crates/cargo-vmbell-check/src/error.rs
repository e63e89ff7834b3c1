//! What can go wrong before cargo runs, or in the wrapper.

use std::io;
use std::path::PathBuf;

/// One line for the user: what failed, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("no command given: try `cargo vmbell-check test`, or `cargo vmbell-check --help`")]
    NoCommand,
    #[error(
        "unknown command `{0}`: it is one of test, build, run, clean; see `cargo vmbell-check --help`"
    )]
    UnknownCommand(String),
    #[error("`{0}` needs a value")]
    NoValue(String),
    #[error(
        "doc tests cannot be checked, because rustdoc compiles them itself: move the code into a test function"
    )]
    DocTests,
    #[error("`{0}` needs --weaken")]
    NeedsWeaken(&'static str),
    #[error("only `cargo vmbell-check test` weakens orders")]
    OnlyTests,
    #[error(
        "only one of --export-json, --export-markdown and --export-html can go to standard output (`-`)"
    )]
    OneStdout,
    #[error("`--site {0}` is not FILE:LINE")]
    Site(String),
    #[error("`--bound {0}` is not a number of executions")]
    Bound(String),
    #[error("no order was weakened, because no test explores a scenario")]
    NothingExplored,
    #[error(
        "the tests' vmbell-check writes records of version {version}, and this program reads version {known}: use the \
         same vmbell-check for both"
    )]
    RecordVersion { version: String, known: u64 },
    #[error("the checker needs Linux on x86-64 or arm64, and `{0}` is another platform")]
    Platform(String),
    #[error(
        "RUSTC_WORKSPACE_WRAPPER is `{0}`, which would change how the code under test is compiled: unset it"
    )]
    WorkspaceWrapper(String),
    #[error(
        "cargo's configuration names the relative rustc-wrapper `{0}`: set RUSTC_WRAPPER to its absolute path"
    )]
    RelativeWrapper(String),
    #[error("{0}")]
    Workspace(String),
    #[error(
        "nothing would be checked: {packages} does not depend on vmbell-check; add it with \
         `cargo add --dev vmbell-check`, or choose another package with -p"
    )]
    NoDependency { packages: String },
    #[error("cannot start `{}`: {source}", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("cannot read the version of `{}`: {reason}", rustc.display())]
    Version { rustc: PathBuf, reason: String },
    #[error(
        "{version} does not accept `{flag}` ({reason}); install a toolchain that does with \
         `rustup toolchain install stable` and run `cargo +stable vmbell-check`, or use --atomics-only"
    )]
    Flag {
        version: String,
        flag: String,
        reason: String,
    },
    #[error("{version} cannot compile for {target} ({reason}); try `rustup target add {target}`")]
    Target {
        version: String,
        target: String,
        reason: String,
    },
    #[error("cannot compile the hooks for programs without the checker: {reason}")]
    Passthrough { reason: String },
    #[error("cannot {operation} `{}`: {source}", path.display())]
    File {
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("this is the compiler of `cargo vmbell-check`, but no compiler was named")]
    NoCompiler,
    #[error(
        "vmbell-check is compiled with panic=abort, but has to unwind tasks: remove `panic = \"abort\"` from the \
         profile, or -Cpanic=abort from RUSTFLAGS"
    )]
    Abort,
}

impl Error {
    /// The exit status: 2 if the command line or the workspace must be changed, 1 if the machine fails.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::NoCommand
            | Self::UnknownCommand(_)
            | Self::NoValue(_)
            | Self::NeedsWeaken(_)
            | Self::OnlyTests
            | Self::OneStdout
            | Self::Site(_)
            | Self::Bound(_)
            | Self::DocTests
            | Self::WorkspaceWrapper(_)
            | Self::RelativeWrapper(_)
            | Self::Workspace(_)
            | Self::NoDependency { .. } => 2,
            _ => 1,
        }
    }

    /// For `map_err`: the operation on `path` that failed.
    pub(crate) fn file(
        operation: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            operation,
            path,
            source,
        }
    }

    /// For `map_err`: `program` did not start.
    pub(crate) fn start(program: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let program = program.into();
        move |source| Self::Start { program, source }
    }
}

/// Returns the first line in which a tool says what is wrong.
pub(crate) fn first_error(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut errors = lines.clone().filter(|line| line.starts_with("error"));
    let first = errors.find_map(|line| Some(line.split_once(": ")?.1));
    first
        .or_else(|| lines.next())
        .unwrap_or("it says nothing")
        .to_owned()
}
