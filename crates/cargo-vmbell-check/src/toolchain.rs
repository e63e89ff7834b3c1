//! The compiler that cargo will use: its version, its host, and the instrumentation flags that it accepts.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::config::Config;
use crate::error::{Error, first_error};
use crate::hooks::Hooks;

/// The compiler, as the output of `rustc -vV` describes it.
#[derive(Debug)]
pub(crate) struct Toolchain {
    pub(crate) rustc: PathBuf,
    /// The output of `rustc -vV`.
    pub(crate) verbose: String,
    pub(crate) host: String,
}

impl Toolchain {
    /// Asks the compiler that cargo would call, in cargo's own order: `RUSTC`, the configuration, `rustc`.
    pub(crate) fn find(config: &Config) -> Result<Self, Error> {
        let configured = || config.get("build.rustc").map(OsString::from);
        let rustc = std::env::var_os("RUSTC")
            .or_else(configured)
            .unwrap_or_else(|| "rustc".into());
        let rustc = PathBuf::from(rustc);
        let output = Command::new(&rustc)
            .arg("-vV")
            .output()
            .map_err(Error::start(&rustc))?;
        let verbose = String::from_utf8_lossy(&output.stdout).into_owned();
        let host = verbose
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .map(str::to_owned);
        match host {
            Some(host) if output.status.success() => Ok(Self {
                rustc,
                verbose,
                host,
            }),
            _ => Err(Error::Version {
                rustc,
                reason: first_error(&output.stderr),
            }),
        }
    }

    /// The first line of the version: `rustc 1.95.0 (59807616e 2026-04-14)`.
    pub(crate) fn version(&self) -> &str {
        self.verbose.lines().next().unwrap_or_default()
    }

    /// The flags for `hooks` that this compiler accepts. They are found by compiling an empty crate to an object file:
    /// the compiler checks `-Cpasses` only then.
    ///
    /// # Errors
    ///
    /// Names the first flag that the compiler refuses, or the target if it cannot compile for it at all.
    pub(crate) fn flags(&self, hooks: Hooks, target: &str) -> Result<Vec<&'static str>, Error> {
        let candidates = hooks.candidates();
        for flags in &candidates {
            if self.probe(flags, target)?.status.success() {
                return Ok(flags.clone());
            }
        }
        let version = self.version().to_owned();
        let plain = self.probe(&[], target)?;
        if !plain.status.success() {
            let reason = first_error(&plain.stderr);
            return Err(Error::Target {
                version,
                target: target.to_owned(),
                reason,
            });
        }
        // The last candidate is for the oldest compiler: all compilers need its flags.
        let needed = candidates.last().map(Vec::as_slice).unwrap_or_default();
        for end in 1..=needed.len() {
            let output = self.probe(&needed[..end], target)?;
            // `needed` lacks the flag that allows uninstrumented crates, so the error about its absence is ignored.
            if !output.status.success() && !is_mixing_error(&output) {
                let reason = first_error(&output.stderr);
                return Err(Error::Flag {
                    version,
                    flag: needed[end - 1].to_owned(),
                    reason,
                });
            }
        }
        let reason = first_error(&self.probe(&candidates[0], target)?.stderr);
        Err(Error::Flag {
            version,
            flag: candidates[0].join(" "),
            reason,
        })
    }

    fn probe(&self, flags: &[&str], target: &str) -> Result<Output, Error> {
        Command::new(&self.rustc)
            .args([
                "-",
                "--crate-name",
                "vmbell_check_probe",
                "--crate-type",
                "lib",
                "--emit",
                "obj=-",
            ])
            .args(["--target", target])
            .args(flags)
            .env("RUSTC_BOOTSTRAP", "1")
            .stdin(Stdio::null())
            .output()
            .map_err(Error::start(&self.rustc))
    }
}

fn is_mixing_error(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stderr).contains("-Cunsafe-allow-abi-mismatch")
}

/// Checks that the engine runs on `target`.
pub(crate) fn check_platform(target: &str) -> Result<(), Error> {
    let is_known = |prefix: &&str| target.starts_with(*prefix);
    if ["x86_64-unknown-linux-", "aarch64-unknown-linux-"]
        .iter()
        .any(is_known)
    {
        Ok(())
    } else {
        Err(Error::Platform(target.to_owned()))
    }
}

/// The cargo that started this program, or the one in `PATH`.
pub(crate) fn cargo() -> PathBuf {
    std::env::var_os("CARGO")
        .unwrap_or_else(|| "cargo".into())
        .into()
}

/// Makes the path of a program that the user named independent of the folder in which cargo calls it.
pub(crate) fn absolute(program: &OsStr) -> PathBuf {
    let path = Path::new(program);
    if path.components().count() > 1 {
        std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
    } else {
        path.to_owned()
    }
}
