//! The compiler wrapper: cargo calls this program instead of rustc, once for each crate.
//!
//! Crates under test are those that cargo compiles for `--target`, except the checker. Build scripts and procedural
//! macros are compiled for the host without `--target` and stay unchanged, as do the small programs with which a build
//! script probes rustc.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::error::Error;

/// The text of this source file. It decides what is hooked, so a different version of it needs a different target
/// folder.
pub(crate) const SOURCE: &str = include_str!("compiler.rs");

/// The checker and what it depends on, by crate name: a hook must not call hooks. Crates that only this program needs
/// are not listed.
const CHECKER: [&str; 15] = [
    "vmbell_check",
    // The checker's direct dependencies.
    "backtrace",
    "corosensei",
    "libc",
    "smallvec",
    "thiserror",
    // The dependencies of those crates.
    "addr2line",
    "adler2",
    "cfg_if",
    "gimli",
    "memchr",
    "miniz_oxide",
    "object",
    "rustc_demangle",
    "scopeguard",
];

const CFG: [&str; 2] = ["--cfg=vmbell_check", "--check-cfg=cfg(vmbell_check)"];

const FLAGS: &str = "VMBELL_CHECK_FLAGS";
const IDENTITY: &str = "VMBELL_CHECK_IDENTITY";
const PASSTHROUGH: &str = "VMBELL_CHECK_PASSTHROUGH";
const WRAPPER: &str = "VMBELL_CHECK_WRAPPER";

/// What the subcommand passes to each call of the wrapper, through the environment.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The instrumentation, separated by spaces.
    pub(crate) flags: String,
    /// The name of the target folder.
    pub(crate) identity: String,
    /// The hooks of programs without the checker.
    pub(crate) passthrough: PathBuf,
    /// The user's own wrapper.
    pub(crate) wrapper: Option<PathBuf>,
}

impl Plan {
    /// Configures cargo to call this program as its compiler.
    pub(crate) fn apply(&self, cargo: &mut Command, program: &OsStr) {
        cargo
            .env("RUSTC_WRAPPER", program)
            .env(FLAGS, &self.flags)
            .env(IDENTITY, &self.identity);
        cargo.env(PASSTHROUGH, &self.passthrough);
        match &self.wrapper {
            Some(wrapper) => cargo.env(WRAPPER, wrapper),
            None => cargo.env_remove(WRAPPER),
        };
        // With `OUT_DIR`, the first question to the wrapper would look like a build script's.
        cargo.env_remove("OUT_DIR");
    }

    /// Reads the plan of the run that this process belongs to, if the process is a call of the wrapper.
    pub(crate) fn from_env() -> Option<Self> {
        Some(Self {
            flags: std::env::var(FLAGS).ok()?,
            identity: std::env::var(IDENTITY).ok()?,
            passthrough: std::env::var_os(PASSTHROUGH)?.into(),
            wrapper: std::env::var_os(WRAPPER).map(PathBuf::from),
        })
    }

    /// Executes the compiler, which replaces this process. Returns only on failure, or if cargo asks for the version.
    pub(crate) fn compile(&self, args: &[OsString]) -> Result<ExitCode, Error> {
        let (rustc, args) = args.split_first().ok_or(Error::NoCompiler)?;
        if args == ["-vV"] && std::env::var_os("OUT_DIR").is_none() {
            return self.print_version(rustc);
        }
        let mut command = match &self.wrapper {
            Some(wrapper) => Command::new(wrapper),
            None => Command::new(rustc),
        };
        if self.wrapper.is_some() {
            command.arg(rustc);
        }
        command.args(args);
        let call = Call::read(args)?;
        if call.is_for_target() {
            self.instrument(&call, &mut command)?;
        } else if call.is_question() {
            // For `[target.'cfg(vmbell_check)'.dependencies]`.
            command.arg(CFG[0]);
        }
        let program = command.get_program().to_owned();
        Err(Error::start(program)(command.exec()))
    }

    /// Prints a version that includes the flags: cargo compiles everything again if the version differs.
    fn print_version(&self, rustc: &OsStr) -> Result<ExitCode, Error> {
        let output = Command::new(rustc)
            .arg("-vV")
            .output()
            .map_err(Error::start(rustc))?;
        let mut stdout = std::io::stdout();
        let mut text = output.stdout;
        text.extend_from_slice(format!("vmbell-check: {}\n", self.identity).as_bytes());
        stdout
            .write_all(&text)
            .map_err(Error::file("write", "standard output"))?;
        std::io::stderr()
            .write_all(&output.stderr)
            .map_err(Error::file("write", "standard error"))?;
        Ok(if output.status.success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn instrument(&self, call: &Call, command: &mut Command) -> Result<(), Error> {
        if call.name() == "vmbell_check" && call.panics_abort() {
            return Err(Error::Abort);
        }
        command.args(CFG);
        if !CHECKER.contains(&call.name()) {
            command
                .args(self.flags.split(' '))
                .env("RUSTC_BOOTSTRAP", "1");
        } else if let Some(consent) = self
            .flags
            .split(' ')
            .find(|flag| flag.contains("abi-mismatch"))
        {
            // The checker uses crates that are instrumented, such as serde_json in the subcommand.
            command.arg(consent);
        }
        if call.links_program() {
            // This library is last on the linker's command line, so it is used only if no crate has the hooks.
            let mut arg = OsString::from("-Clink-arg=");
            arg.push(&self.passthrough);
            command.arg(arg);
        }
        Ok(())
    }
}

/// One call of rustc.
struct Call {
    args: Vec<String>,
}

impl Call {
    /// Reads the arguments. cargo puts arguments that are too long into a file, one per line, and passes `@file`.
    fn read(args: &[OsString]) -> Result<Self, Error> {
        let mut list = Vec::new();
        for arg in args {
            let arg = arg.to_string_lossy();
            match arg.strip_prefix('@') {
                Some(path) => {
                    let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
                    list.extend(text.lines().map(str::to_owned));
                }
                None => list.push(arg.into_owned()),
            }
        }
        Ok(Self { args: list })
    }

    /// The values of an option: `--name value`, `--name=value`, `-C value`, `-Cvalue`.
    fn values<'a>(&'a self, option: &'a str) -> impl Iterator<Item = &'a str> {
        let long = option.starts_with("--");
        self.args.iter().enumerate().filter_map(move |(at, arg)| {
            match arg.strip_prefix(option)? {
                "" => self.args.get(at + 1).map(String::as_str),
                rest if long => rest.strip_prefix('='),
                rest => Some(rest),
            }
        })
    }

    fn name(&self) -> &str {
        self.values("--crate-name").next().unwrap_or_default()
    }

    fn has_target(&self) -> bool {
        self.values("--target").next().is_some()
    }

    /// Returns whether this is a crate of the dependency graph, compiled for the target. cargo names the crate in the
    /// environment; a build script that calls the compiler does not.
    fn is_for_target(&self) -> bool {
        self.has_target() && std::env::var_os("CARGO_CRATE_NAME").is_some()
    }

    /// Returns whether cargo asks for the target's properties: it does so with a crate named `___`.
    fn is_question(&self) -> bool {
        self.has_target() && self.name() == "___"
    }

    fn links_program(&self) -> bool {
        self.args.iter().any(|arg| arg == "--test")
            || self.values("--crate-type").any(|kind| kind == "bin")
    }

    /// Returns whether panics abort. The last option wins: RUSTFLAGS come after the profile.
    fn panics_abort(&self) -> bool {
        self.values("-C")
            .filter_map(|option| option.strip_prefix("panic="))
            .last()
            == Some("abort")
    }
}

#[cfg(test)]
#[path = "compiler_test.rs"]
mod tests;
